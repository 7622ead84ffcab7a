"""What a node says of itself apart from its GPUs: who, what time it has, which Python, and what ends with us."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.probe.answer import Ran, Unknown, failed, first_words, number, read_object, string

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
class Logout:
    """What logind does when the user's last session ends, and whether the user lingers."""

    kill_processes: bool
    remove_ipc: bool
    linger: bool


def read_host(ran: Ran | None) -> Host | Unknown:
    """Return who the node says it is."""
    found = read_object(ran, "the host")
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


def read_clock(ran: Ran | None, now: float, slack: float = 0.0) -> float | Unknown:
    """Return how far the node's clock is ahead of ours (s); `now` is our time when the node's answer arrived.

    `slack` is how much of the time before was spent on the way (s): the answer may have left so much earlier. Of all
    that the clock may then be ahead, what is nearest to right is taken.
    """
    why = failed(ran, "`date`")
    if ran is None or why:
        return why or Unknown(why="`date` was not asked")
    # A `date` without nanoseconds prints their letter.
    match = re.fullmatch(r"([0-9]{1,12})(?:\.([0-9]{1,9})?[%N]*)?", ran.out.strip())
    if match is None:
        return Unknown(why=f"`date` says: {first_words(ran.out)}")
    least = float(f"{match[1]}.{match[2] or 5}") + ran.age - now
    return least if least > 0 else min(0.0, least + slack)


def read_python(ran: Ran | None, command: str) -> Interpreter | Unknown:
    """Return what an interpreter says of itself."""
    found = read_object(ran, f"`{command}`")
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


def read_addresses(ran: Ran | None) -> tuple[str, ...] | Unknown:
    """Return the node's own addresses."""
    why = failed(ran, "`hostname -I`")
    if ran is None or why:
        return why or Unknown(why="`hostname -I` was not asked")
    return tuple(ran.out.split()[:MAX_ITEMS])


def read_sudo(ran: Ran | None) -> bool | Unknown:
    """Whether the user may do things as root without a password."""
    why = failed(ran, "`sudo`")
    if ran is None or (why and why.hung):
        return why or Unknown(why="`sudo` was not asked")
    return ran.rc == 0


def read_imex_unit(ran: Ran | None) -> bool | Unknown | None:
    """Whether the service of IMEX is active; None where no such service is installed."""
    found = _properties(ran, "`systemctl`")
    if isinstance(found, Unknown):
        return None if found.missing else found
    if found.get("LoadState") == "not-found":
        return None
    state = found.get("ActiveState")
    return state == "active" if state else Unknown(why="`systemctl` says nothing of `nvidia-imex`")


def read_logout(ran: Ran | None) -> Logout | Unknown:
    """Return what ends with the last session; a machine without logind ends nothing."""
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
    if ran is not None and "not been booted with systemd" in ran.err:
        return Unknown(why="systemd does not run here", missing=True)
    if ran is None or why:
        return why or Unknown(why=f"{what} was not asked")
    lines = (line.partition("=") for line in ran.out.splitlines()[:MAX_ITEMS])
    return {key: value for key, equals, value in lines if equals}
