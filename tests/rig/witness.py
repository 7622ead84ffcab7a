"""What tests see of hosts from the launching side and from the machine: knocks at ports, what is left of rigs."""

import socket
import time
from collections.abc import Callable
from pathlib import Path

from tests.rig.host import Host


def until(holds: Callable[[], bool], patience: float = 40) -> None:
    """Poll until something holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, "in vain"
        time.sleep(0.02)


def knock(host: Host, port: int = 22) -> str:
    """Return what becomes of a connection from the launching side.

    The kernel completes a connection in no time, also on a busy machine; sshd has to be scheduled before it greets.
    """
    try:
        caller = socket.create_connection((host.address, port), 1)
    except ConnectionRefusedError:
        return "refused"
    except TimeoutError:
        return "silence"
    with caller:
        caller.settimeout(2)
        try:
            return caller.recv(7).decode() or "closed"
        except ConnectionResetError:
            return "reset"
        except TimeoutError:
            return "accepts, says nothing"


def traces(folder: Path, link: int) -> list[str]:
    """Return what this machine still has of a rig, by its folder and the number of its interface here."""
    numbers = {int(path.read_text()) for path in Path("/sys/class/net").glob("*/ifindex")}
    mounts = [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(folder) in line]
    return [
        *([f"folder {folder}"] if folder.exists() else []),
        *([f"interface {link}"] if link in numbers else []),
        *(f"mount {line}" for line in mounts),
        *(f"process {pid}" for pid in _named(str(folder).encode())),
    ]


def _named(word: bytes) -> list[int]:
    """Return the processes with this word in their command line: the warden, and each PID 1."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if word in (entry / "cmdline").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile
                pass
    return found


def in_namespace(kind: str, link: Path) -> list[int]:
    """Return the processes of this machine in a namespace."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if (entry / "ns" / kind).readlink() == link:
                    found.append(int(entry.name))
            except OSError:  # gone meanwhile, or the machine's own PID 1
                pass
    return found
