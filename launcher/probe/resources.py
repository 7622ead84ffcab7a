"""Resources of a node: disks, memory, ports, processes, InfiniBand."""

from collections.abc import Mapping
from dataclasses import dataclass

from launcher.probe.results import ProbeResult, Unknown, decode, failure_of, first_words, number, read_object, string

MAX_ITEMS = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """Bytes and inodes at a path (`inodes` 0: the file system has no limit).

    `at` is the folder that was checked, `device` identifies its file system.
    """

    path: str
    at: str
    bytes: int
    free: int
    inodes: int
    free_inodes: int
    writable: bool
    read_only: bool
    device: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Memory in bytes, and how long programs waited for it.

    `stalled` is the share of the last minute in which all programs waited (%).
    """

    total: int
    available: int
    stalled: float


@dataclass(frozen=True, slots=True, kw_only=True)
class HostnameLookup:
    """The host name of a node, and the time to resolve it (s).

    No addresses if it does not resolve.
    """

    name: str
    seconds: float
    addresses: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeProcess:
    """A process of Ray, or one with our mark `<run>:<node>:...`.

    `agent` is `<run>:<node>` for an agent.
    """

    pid: int
    user: str
    name: str
    ray: bool
    mark: str | None
    agent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IbPort:
    """A port of an InfiniBand or RoCE device.

    State and rate are as the kernel prints them: `4: ACTIVE`, `400 Gb/sec (4X NDR)`.
    """

    device: str
    port: str
    state: str
    rate: str

    @property
    def active(self) -> bool:
        """Whether the port is active."""
        return self.state.endswith("ACTIVE")


def _list(result: ProbeResult | None, what: str) -> list[object] | Unknown:
    why = failure_of(result, what)
    found = decode(result.out) if result and not why else None
    return why or (
        found[:MAX_ITEMS] if isinstance(found, list) else Unknown(why=f"the output of {what} cannot be parsed")
    )


def read_lease(result: ProbeResult | None) -> str | Unknown | None:
    """Return who holds the lease of a node; None if it is free."""
    found = read_object(result, "the lease check")
    return found if isinstance(found, Unknown) else string(found, "holder") or None


def read_space(result: ProbeResult | None, path: str) -> Space | Unknown:
    """Return the free space at a path."""
    found = read_object(result, f"`{path}`")
    return found if isinstance(found, Unknown) else space_of(found, path)


def space_of(found: Mapping[str, object], path: str) -> Space:
    """Return the free space at a path out of the answer of a node."""
    return Space(
        path=path,
        at=string(found, "at") or path,
        bytes=int(number(found, "bytes")),
        free=int(number(found, "free")),
        inodes=int(number(found, "inodes")),
        free_inodes=int(number(found, "free_inodes")),
        writable=found.get("writable") is True,
        read_only=found.get("read_only") is True,
        device=string(found, "device"),
    )


def read_memory(result: ProbeResult | None) -> Memory | Unknown:
    """Return the memory of a node."""
    found = read_object(result, "the memory check")
    if isinstance(found, Unknown):
        return found
    total, available = int(number(found, "total")), int(number(found, "available"))
    return Memory(total=total, available=available, stalled=number(found, "stalled"))


def read_began(result: ProbeResult | None, boot_id: str | None) -> float | Unknown | None:
    """Return when the agent of a run began (seconds since boot).

    None without an agent, 0 for an earlier boot.
    """
    why = failure_of(result, "the file of the agent")
    if result is None or why:
        return why or Unknown(why="no result of the file of the agent")
    text = decode(result.out)
    if text is None:
        return None
    found = decode(text) if isinstance(text, str) else None
    if not isinstance(found, dict):
        return Unknown(why="the file of the agent cannot be parsed")
    return number(found, "at") if string(found, "boot_id") == boot_id else 0.0


def read_hostname(result: ProbeResult | None) -> HostnameLookup | Unknown:
    """Return how the node resolves its own host name.

    A timeout means that it does not resolve.
    """
    if result is not None and result.timed_out:
        return HostnameLookup(name="", seconds=result.elapsed, addresses=())
    found = read_object(result, "the host name check")
    if isinstance(found, Unknown):
        return found
    addresses = found.get("addresses")
    return HostnameLookup(
        name=string(found, "name"),
        seconds=number(found, "seconds"),
        addresses=tuple(map(str, addresses[:MAX_ITEMS])) if isinstance(addresses, list) else (),
    )


def read_ports(result: ProbeResult | None) -> frozenset[int] | Unknown:
    """Return the TCP ports with a listener."""
    why = failure_of(result, "the port check")
    found = decode(result.out) if result and not why else None
    if not isinstance(found, list):
        return why or Unknown(why="the output of the port check cannot be parsed")
    return frozenset(port for port in found if isinstance(port, int) and 0 < port < 65536)


def read_processes(result: ProbeResult | None) -> tuple[NodeProcess, ...] | Unknown:
    """Return the processes of Ray and of our runs."""
    found = _list(result, "the process check")
    if isinstance(found, Unknown):
        return found
    return tuple(
        NodeProcess(
            pid=int(number(item, "pid")),
            user=string(item, "user"),
            name=first_words(string(item, "name")),
            ray=item.get("ray") is True,
            mark=string(item, "mark") or None,
            agent=string(item, "agent") or None,
        )
        for item in found
        if isinstance(item, dict)
    )


def read_infiniband(result: ProbeResult | None) -> tuple[IbPort, ...] | Unknown:
    """Return the ports of the node's InfiniBand and RoCE devices."""
    found = _list(result, "the InfiniBand check")
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
