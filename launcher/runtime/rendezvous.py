"""Chooses the port on which rank 0 of a group meets the others: one that is free when its attempt starts.

Free for both address families: a listener on `::` or on 127.0.0.1 alone is in the way too. Ports that the kernel may
give to outgoing connections come last. The choice is kept, since a start may be asked for twice.
"""

import contextlib
import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from . import files
from .protocol import PlainRequest, Reply
from .protocol_files import RendezvousQuestion

CHOSEN = "rendezvous.json"
RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
NAMED = 3
"""How many holders of ports are named where none is free."""


def told(folder: Path, request: PlainRequest, reply: Reply) -> Reply:
    """Return the reply to `hello`, with a port for rendezvous where one is asked for."""
    return {**reply, **choose(folder, request["rendezvous"])} if "rendezvous" in request else reply


def choose(folder: Path, question: RendezvousQuestion) -> Reply:
    """Return the port of a group's attempt, the same each time; where none is free, who has them."""
    kept: dict[str, Any] = files.read(folder / CHOSEN) or {}
    attempt, port = kept.get(question["group"], (0, 0))
    if attempt != question["attempt"]:
        found = next((one for one in _best_first(question["ports"]) if is_free(one)), None)
        if found is None:
            ports = question["ports"]
            message = f"no port for rendezvous is free from {min(ports)} to {max(ports)}: {_holders(ports)}"
            return {"ok": True, "message": message}
        port = found
        with contextlib.suppress(OSError):  # a full disk: then a start that is asked for again chooses anew
            files.write(folder / CHOSEN, {**kept, question["group"]: (question["attempt"], port)})
    return {"ok": True, "port": port}


def is_free(port: int) -> bool:
    """Whether a program could listen on a port, in each address family that the machine has."""
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104 that is the question
        try:
            probe = socket.socket(family)
        except OSError:
            continue  # no IPv6 here
        with probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a connection that is closing is no listener
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((address, port))
                probe.listen(1)
            except OSError as error:
                if family == socket.AF_INET or error.errno != errno.EADDRNOTAVAIL:  # IPv6 is switched off
                    return False
    return True


def _best_first(ports: Iterable[int]) -> list[int]:
    try:
        first, last = map(int, RANGE.read_text().split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    return sorted(ports, key=lambda port: first <= port <= last)


def _holders(ports: Iterable[int]) -> str:
    """Return who listens on ports, as far as this user may know."""
    inodes = _listeners(set(ports))
    named: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            for handle in (process / "fd").iterdir():
                port = inodes.pop(os.readlink(handle), None)
                if port is not None:
                    named.append(f"{port} by pid {process.name} ({(process / 'comm').read_text().strip()})")
    more = [f"{port} by another user" for port in sorted(set(inodes.values()))]
    return ", ".join([*named, *more][:NAMED]) or "in use"


def _listeners(ports: set[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for table in TABLES:
        with contextlib.suppress(OSError):
            for line in table.read_text().splitlines()[1:]:
                columns = line.split()
                port = int(columns[1].rpartition(":")[2], 16)
                if port in ports:
                    found[f"socket:[{columns[9]}]"] = port
    return found
