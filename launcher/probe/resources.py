"""What a node has and who uses it: room, limits, its own name, ports, processes, network devices."""

from dataclasses import dataclass

from launcher.probe.answer import Ran, Unknown, decode, failed, first_words, number, read_object, string

MAX_ITEMS = 1000


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
class Memory:
    """The memory in bytes, what of it can be had, and how much of the last minute all programs waited for it (%)."""

    total: int
    available: int
    stalled: float


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
    """A process of Ray, or one that carries a mark of ours: `<run>:<place>:...`; `agent` is `<run>:<place>`."""

    pid: int
    user: str
    name: str
    ray: bool
    mark: str | None
    agent: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class IbPort:
    """A port of an InfiniBand or RoCE device, in the kernel's words: `4: ACTIVE`, `400 Gb/sec (4X NDR)`."""

    device: str
    port: str
    state: str
    rate: str

    @property
    def active(self) -> bool:
        """Whether traffic can flow."""
        return self.state.endswith("ACTIVE")


def _list(ran: Ran | None, what: str) -> list[object] | Unknown:
    why = failed(ran, what)
    found = decode(ran.out) if ran and not why else None
    return why or (found[:MAX_ITEMS] if isinstance(found, list) else Unknown(why=f"{what} cannot be read"))


def read_lease(ran: Ran | None) -> str | Unknown | None:
    """Return what the holder of a node's lease wrote for people; None where nobody has it."""
    found = read_object(ran, "the lease")
    return found if isinstance(found, Unknown) else string(found, "holder") or None


def read_space(ran: Ran | None, path: str) -> Space | Unknown:
    """Return what is free at a path."""
    found = read_object(ran, f"`{path}`")
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


def read_memory(ran: Ran | None) -> Memory | Unknown:
    """Return the memory of a node."""
    found = read_object(ran, "the memory")
    if isinstance(found, Unknown):
        return found
    total, available = int(number(found, "total")), int(number(found, "available"))
    return Memory(total=total, available=available, stalled=number(found, "stalled"))


def read_began(ran: Ran | None, boot_id: str | None) -> float | Unknown | None:
    """Return when the agent of a run began (seconds since boot), None where there is none; 0 for an earlier boot."""
    why = failed(ran, "the agent's file")
    if ran is None or why:
        return why or Unknown(why="the agent's file was not asked for")
    text = decode(ran.out)
    if text is None:
        return None
    found = decode(text) if isinstance(text, str) else None
    if not isinstance(found, dict):
        return Unknown(why="the agent's file cannot be read")
    return number(found, "at") if string(found, "boot_id") == boot_id else 0.0


def read_open_files(ran: Ran | None) -> OpenFiles | Unknown:
    """Return the limits on open files."""
    found = read_object(ran, "the limit on open files")
    if isinstance(found, Unknown):
        return found
    return OpenFiles(soft=int(number(found, "soft")), hard=int(number(found, "hard")))


def read_own_name(ran: Ran | None) -> OwnName | Unknown:
    """Return how the node resolves its own name; a resolver that never answers is an answer too."""
    if ran is not None and ran.timed_out:
        return OwnName(name="", seconds=ran.elapsed, addresses=())
    found = read_object(ran, "the node's own name")
    if isinstance(found, Unknown):
        return found
    addresses = found.get("addresses")
    return OwnName(
        name=string(found, "name"),
        seconds=number(found, "seconds"),
        addresses=tuple(map(str, addresses[:MAX_ITEMS])) if isinstance(addresses, list) else (),
    )


def read_ports(ran: Ran | None) -> frozenset[int] | Unknown:
    """Return the TCP ports that somebody listens on."""
    why = failed(ran, "the ports in use")
    found = decode(ran.out) if ran and not why else None
    if not isinstance(found, list):
        return why or Unknown(why="the ports in use cannot be read")
    return frozenset(port for port in found if isinstance(port, int) and 0 < port < 65536)


def read_processes(ran: Ran | None) -> tuple[Process, ...] | Unknown:
    """Return the processes of Ray and of runs of ours."""
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
            agent=string(item, "agent") or None,
        )
        for item in found
        if isinstance(item, dict)
    )


def read_infiniband(ran: Ran | None) -> tuple[IbPort, ...] | Unknown:
    """Return the ports of the node's InfiniBand and RoCE devices."""
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
