"""The system of a node: host, clock, Python, addresses, sudo, logout."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from launcher.probe.results import (
    ProbeResult,
    Unknown,
    failure_of,
    first_words,
    number,
    read_object,
    string,
)

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
"""Reads the version of Ray without importing it, which would take a second of CPU."""

MAX_ITEMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class HostInfo:
    """The host and the user that answer, and the uptime (s).

    `instance` is its process namespace: a machine, or one container of it.
    """

    hostname: str
    machine: str
    kernel: str
    boot_id: str
    uptime: float
    user: str
    uid: int
    instance: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """The Python for Ray; `ray` is its version, None without Ray."""

    version: tuple[int, ...]
    executable: str
    machine: str
    ray: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Logout:
    """What logind does at the end of the last session of the user."""

    kill_processes: bool
    remove_ipc: bool
    linger: bool


def read_host(result: ProbeResult | None) -> HostInfo | Unknown:
    """Return the host and the user that answer."""
    found = read_object(result, "the host check")
    if isinstance(found, Unknown):
        return found
    return HostInfo(
        hostname=string(found, "hostname"),
        machine=string(found, "machine"),
        kernel=string(found, "kernel"),
        boot_id=string(found, "boot_id"),
        uptime=number(found, "uptime"),
        user=string(found, "user"),
        uid=int(number(found, "uid")),
        instance=string(found, "instance"),
    )


def read_clock(result: ProbeResult | None, now: float, slack: float = 0.0) -> float | Unknown:
    """Return how far the clock of the node is ahead of ours (s).

    `now` is our time when the answer arrived. `slack` is the time that request and answer were on the way (s). It makes
    the offset uncertain; the result is the smallest possible one.
    """
    why = failure_of(result, "`date`")
    if result is None or why:
        return why or Unknown(why="no result of `date`")
    # A `date` that does not know `%N` prints it.
    match = re.fullmatch(r"([0-9]{1,12})(?:\.([0-9]{1,9})?[%N]*)?", result.out.strip())
    if match is None:
        return Unknown(why=f"`date` printed: {first_words(result.out)}")
    least = float(f"{match[1]}.{match[2] or 5}") + result.age - now
    return least if least > 0 else min(0.0, least + slack)


def read_python(result: ProbeResult | None, command: str) -> Interpreter | Unknown:
    """Return the version of an interpreter and of its Ray."""
    found = read_object(result, f"`{command}`")
    if isinstance(found, Unknown):
        return found
    version = string(found, "version")
    numbers = re.match(r"([0-9]{1,4})\.([0-9]{1,4})(?:\.([0-9]{1,4}))?", version)
    if numbers is None:
        return Unknown(why=f"`{command}` printed an unexpected version: {first_words(version)}")
    return Interpreter(
        version=tuple(int(part) for part in numbers.groups() if part),
        executable=string(found, "executable"),
        machine=string(found, "machine"),
        ray=string(found, "ray") or None,
    )


def read_addresses(result: ProbeResult | None) -> tuple[str, ...] | Unknown:
    """Return the addresses of the node."""
    why = failure_of(result, "`hostname -I`")
    if result is None or why:
        return why or Unknown(why="no result of `hostname -I`")
    return tuple(result.out.split()[:MAX_ITEMS])


def read_sudo(result: ProbeResult | None) -> bool | Unknown:
    """Whether the user has `sudo` without a password."""
    why = failure_of(result, "`sudo`")
    if result is None or (why and why.hung):
        return why or Unknown(why="no result of `sudo`")
    return result.rc == 0


def read_imex_unit(result: ProbeResult | None) -> bool | Unknown | None:
    """Whether the service `nvidia-imex` is active; None if it is not installed."""
    found = _properties(result, "`systemctl`")
    if isinstance(found, Unknown):
        return None if found.missing else found
    if found.get("LoadState") == "not-found":
        return None
    state = found.get("ActiveState")
    return state == "active" if state else Unknown(why="`systemctl` printed no state of `nvidia-imex`")


def read_logout(result: ProbeResult | None) -> Logout | Unknown:
    """Return what logind does at logout; without logind, nothing."""
    found = _properties(result, "`loginctl`")
    if isinstance(found, Unknown):
        return Logout(kill_processes=False, remove_ipc=False, linger=False) if found.missing else found
    if "KillUserProcesses" not in found:
        return Unknown(why="`loginctl` did not print `KillUserProcesses`")
    return Logout(
        kill_processes=found["KillUserProcesses"] == "yes",
        remove_ipc=found.get("RemoveIPC") == "yes",
        linger=found.get("Linger") == "yes",
    )


def _properties(result: ProbeResult | None, what: str) -> Mapping[str, str] | Unknown:
    """Return the `Key=value` lines that the tools of systemd print."""
    why = failure_of(result, what)
    if result is not None and "not been booted with systemd" in result.err:
        return Unknown(why="systemd does not run on the node", missing=True)
    if result is None or why:
        return why or Unknown(why=f"no result of {what}")
    lines = (line.partition("=") for line in result.out.splitlines()[:MAX_ITEMS])
    return {key: value for key, equals, value in lines if equals}
