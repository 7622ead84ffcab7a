"""What a node says of itself apart from its GPUs: who, what time, what is free, who else is there, what ends with us."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeVar

from launcher.probe.answer import Ran, Unknown, decode, failed, first_words, number, string

DATE_COMMAND = ("date", "+%s.%N")
ADDRESSES_COMMAND = ("hostname", "-I")
SUDO_COMMAND = ("sudo", "-n", "true")
UNITS_COMMAND = ("systemctl", "show", "nvidia-imex.service", "-p", "Id", "-p", "LoadState", "-p", "ActiveState")
LOGIND_COMMAND = (
    "sh",
    "-c",
    'loginctl show-session -p KillUserProcesses -p RemoveIPC && { loginctl show-user "$(id -un)" -p Linger || true; }',
)
PYTHON_CODE = """
import json, platform, sys
found = {"version": platform.python_version(), "executable": sys.executable, "machine": platform.machine()}
try:
    from importlib.metadata import version
    found["ray"] = version("ray")
except Exception as error:
    found["no_ray"] = type(error).__name__
print(json.dumps(found))
"""
"""Asks an interpreter without importing Ray, which takes a second of CPU."""

MAX_ITEMS = 1000

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Who answers: names, kernel, and since when it is up (s)."""

    hostname: str
    machine: str
    kernel: str
    boot_id: str
    uptime: float
    user: str
    uid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python that Ray is to run on; `ray` None: it has none."""

    version: tuple[int, ...]
    executable: str
    machine: str
    ray: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What is free at a path, bytes and inodes (0 inodes in all: the file system has no limit)."""

    path: str
    at: str
    bytes: int
    free: int
    inodes: int
    free_inodes: int
    writable: bool
    read_only: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenFiles:
    """How many files a process may have open, and up to how many it may raise that itself; -1: no limit."""

    soft: int
    hard: int


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnName:
    """The machine's own name, and how long it takes to resolve it (s); no addresses: it does not."""

    name: str
    seconds: float
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Process:
    """A process of Ray, or one that carries a mark of ours: `<run>:<place>:...`; `keeper` is `<run>:<place>`."""

    pid: int
    user: str
    name: str
    ray: bool
    mark: str | None
    keeper: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logout:
    """What logind does when the user's last session ends, and whether the user lingers."""

    kill_processes: bool
    remove_ipc: bool
    linger: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class IbPort:
    """A port of an InfiniBand or RoCE device, in the kernel's words: `4: ACTIVE`, `400 Gb/sec (4X NDR)`."""

    device: str
    port: str
    state: str
    rate: str

    @property
    def active(self) -> bool:
        """Answer whether traffic can flow."""
        return self.state.endswith("ACTIVE")


def _object(ran: Ran | None, what: str) -> Mapping[str, object] | Unknown:
    why = failed(ran, what)
    found = decode(ran.out) if ran and not why else None
    return why or (found if isinstance(found, dict) else Unknown(why=f"{what} cannot be read"))


def _list(ran: Ran | None, what: str) -> list[object] | Unknown:
    why = failed(ran, what)
    found = decode(ran.out) if ran and not why else None
    return why or (found[:MAX_ITEMS] if isinstance(found, list) else Unknown(why=f"{what} cannot be read"))


def read_host(ran: Ran | None) -> Host | Unknown:
    """Answer who the node says it is."""
    found = _object(ran, "the host")
    if isinstance(found, Unknown):
        return found
    return Host(
        hostname=string(found, "hostname"),
        machine=string(found, "machine"),
        kernel=string(found, "kernel"),
        boot_id=string(found, "boot_id"),
        uptime=number(found, "uptime"),
        user=string(found, "user"),
        uid=int(number(found, "uid")),
    )


def read_clock(ran: Ran | None, now: float) -> float | Unknown:
    """Answer how far the node's clock is ahead of ours (s); `now` is our time when the node's answer arrived."""
    why = failed(ran, "`date`")
    if ran is None or why:
        return why or Unknown(why="`date` was not asked")
    # A `date` without nanoseconds prints their letter.
    match = re.fullmatch(r"([0-9]{1,12})(?:\.([0-9]{1,9})?[%N]*)?", ran.out.strip())
    if match is None:
        return Unknown(why=f"`date` says: {first_words(ran.out)}")
    return float(f"{match[1]}.{match[2] or 5}") + ran.age - now


def read_python(ran: Ran | None, command: str) -> Interpreter | Unknown:
    """Answer what an interpreter says of itself."""
    found = _object(ran, f"`{command}`")
    if isinstance(found, Unknown):
        return found
    version = string(found, "version")
    numbers = re.match(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?", version)
    if numbers is None:
        return Unknown(why=f"`{command}` says it is version {first_words(version)}")
    return Interpreter(
        version=tuple(int(part) for part in numbers.groups() if part),
        executable=string(found, "executable"),
        machine=string(found, "machine"),
        ray=string(found, "ray") or None,
    )


def read_space(ran: Ran | None, path: str) -> Space | Unknown:
    """Answer what is free at a path."""
    found = _object(ran, f"`{path}`")
    if isinstance(found, Unknown):
        return found
    return Space(
        path=path,
        at=string(found, "at") or path,
        bytes=int(number(found, "bytes")),
        free=int(number(found, "free")),
        inodes=int(number(found, "inodes")),
        free_inodes=int(number(found, "free_inodes")),
        writable=found.get("writable") is True,
        read_only=found.get("read_only") is True,
    )


def read_open_files(ran: Ran | None) -> OpenFiles | Unknown:
    """Answer the limits on open files."""
    found = _object(ran, "the limit on open files")
    if isinstance(found, Unknown):
        return found
    return OpenFiles(soft=int(number(found, "soft")), hard=int(number(found, "hard")))


def read_own_name(ran: Ran | None) -> OwnName | Unknown:
    """Answer how the node resolves its own name; a resolver that never answers is an answer too."""
    if ran is not None and ran.timed_out:
        return OwnName(name="", seconds=ran.elapsed, addresses=())
    found = _object(ran, "the node's own name")
    if isinstance(found, Unknown):
        return found
    addresses = found.get("addresses")
    return OwnName(
        name=string(found, "name"),
        seconds=number(found, "seconds"),
        addresses=tuple(map(str, addresses[:MAX_ITEMS])) if isinstance(addresses, list) else (),
    )


def read_addresses(ran: Ran | None) -> tuple[str, ...] | Unknown:
    """Answer the node's own addresses."""
    why = failed(ran, "`hostname -I`")
    if ran is None or why:
        return why or Unknown(why="`hostname -I` was not asked")
    return tuple(ran.out.split()[:MAX_ITEMS])


def read_ports(ran: Ran | None) -> frozenset[int] | Unknown:
    """Answer the TCP ports that somebody listens on."""
    why = failed(ran, "the ports in use")
    found = decode(ran.out) if ran and not why else None
    if not isinstance(found, list):
        return why or Unknown(why="the ports in use cannot be read")
    return frozenset(port for port in found if isinstance(port, int) and 0 < port < 65536)


def read_processes(ran: Ran | None) -> tuple[Process, ...] | Unknown:
    """Answer the processes of Ray and of runs of ours."""
    found = _list(ran, "the processes")
    if isinstance(found, Unknown):
        return found
    return tuple(
        Process(
            pid=int(number(item, "pid")),
            user=string(item, "user"),
            name=first_words(string(item, "name")),
            ray=item.get("ray") is True,
            mark=string(item, "mark") or None,
            keeper=string(item, "keeper") or None,
        )
        for item in found
        if isinstance(item, dict)
    )


def read_infiniband(ran: Ran | None) -> tuple[IbPort, ...] | Unknown:
    """Answer the ports of the node's InfiniBand and RoCE devices."""
    found = _list(ran, "the InfiniBand devices")
    if isinstance(found, Unknown):
        return found
    return tuple(
        IbPort(
            device=string(item, "device"),
            port=string(item, "port"),
            state=string(item, "state"),
            rate=string(item, "rate"),
        )
        for item in found
        if isinstance(item, dict)
    )


def read_sudo(ran: Ran | None) -> bool | Unknown:
    """Answer whether the user may do things as root without a password."""
    why = failed(ran, "`sudo`")
    if ran is None or (why and why.hung):
        return why or Unknown(why="`sudo` was not asked")
    return ran.rc == 0


def read_imex_unit(ran: Ran | None) -> bool | None | Unknown:
    """Answer whether the service of IMEX is active; None where no such service is installed."""
    found = _properties(ran, "`systemctl`")
    if isinstance(found, Unknown):
        return None if found.missing else found
    if found.get("LoadState") == "not-found":
        return None
    state = found.get("ActiveState")
    return state == "active" if state else Unknown(why="`systemctl` says nothing of `nvidia-imex`")


def read_logout(ran: Ran | None) -> Logout | Unknown:
    """Answer what ends with the last session; a machine without logind ends nothing."""
    found = _properties(ran, "`loginctl`")
    if isinstance(found, Unknown):
        return Logout(kill_processes=False, remove_ipc=False, linger=False) if found.missing else found
    if "KillUserProcesses" not in found:
        return Unknown(why="`loginctl` does not say what ends with a session")
    return Logout(
        kill_processes=found["KillUserProcesses"] == "yes",
        remove_ipc=found.get("RemoveIPC") == "yes",
        linger=found.get("Linger") == "yes",
    )


def _properties(ran: Ran | None, what: str) -> Mapping[str, str] | Unknown:
    """The `Key=value` lines that the tools of systemd print."""
    why = failed(ran, what)
    if ran is None or why:
        return why or Unknown(why=f"{what} was not asked")
    lines = (line.partition("=") for line in ran.out.splitlines()[:MAX_ITEMS])
    return {key: value for key, equals, value in lines if equals}
