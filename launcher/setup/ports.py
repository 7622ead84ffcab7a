"""The ports that a run pins, all below 9000.

They lie under Ray's own worker ports and the kernel's ephemeral ones, so that neither another Ray nor a client's socket
takes one of them.

Each unit of a run on a machine has a block, and its agent takes the first free one of those listed here. A real machine
has one wide block for its raylet; local nodes share a machine, and Ray listens on every interface whatever its address,
so they take narrow ones, as do the heads that share a machine outside the racks.
"""

from dataclasses import dataclass

# Above 6379, the default of Ray itself and of Redis.
FIRST = 6400
LAST = 9000
# Well-known ports: a block with one of them is left out.
BUSY = (8000, 8080, 8265, 8443, 8888)
NARROW = 40
WIDE = 1180
PINNED = 10
"""The first ports of a block, which must be free: each is one listener's. Ray steps over taken ones in a range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of one Ray node, for its workers, and for rendezvous.

    `gcs`, `heartbeat` and `client` are those of a head.
    """

    gcs: int
    heartbeat: int
    client: int
    dashboard: int
    node_manager: int
    object_manager: int
    metrics: int
    runtime_env_agent: int
    agent_http: int
    agent_grpc: int
    workers: tuple[int, int]
    master: tuple[int, int]

    def master_ports(self, attempt: int, lane: int = 0, lanes: int = 1) -> tuple[int, ...]:
        """Return the ports that MASTER_PORT of an attempt may be, the best first.

        Another one comes first each time, so that no socket of the last attempt is in the way. Each of the `lanes`
        groups on a node has ports of its own.
        """
        first, last = self.master
        ports = range(first, last + 1)
        own = ports[lane % len(ports) :: lanes]
        turn = attempt % len(own)
        return (*own[turn:], *own[:turn])


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Where a unit's block of ports may begin, and its size."""

    starts: tuple[int, ...]
    size: int

    def has(self, start: int) -> bool:
        """Whether a block may begin at a port: a node's own word is not enough."""
        return FIRST <= start <= LAST - self.size

    def ports(self, start: int) -> Ports:
        """Return the ports of the block that begins at `start`.

        Ten are for Ray, a sixth of the rest for rendezvous.
        """
        first_master = start + self.size - (self.size - PINNED) // 6
        return Ports(
            gcs=start,
            heartbeat=start + HEARTBEAT,
            client=start + 2,
            dashboard=start + 3,
            node_manager=start + 4,
            object_manager=start + 5,
            metrics=start + 6,
            runtime_env_agent=start + 7,
            agent_http=start + 8,
            agent_grpc=start + 9,
            workers=(start + PINNED, first_master - 1),
            master=(first_master, start + self.size - 1),
        )


HEARTBEAT = 1
"""Where in the block of a head its agent listens."""


def narrow(first: int = FIRST) -> Blocks:
    """Return the blocks of local nodes and of heads.

    As many as fit, without those with a well-known port.
    """
    starts = range(first, LAST - NARROW + 1, NARROW)
    kept = (start for start in starts if not any(start <= port < start + NARROW for port in BUSY))
    return Blocks(starts=tuple(kept), size=NARROW)


def wide() -> Blocks:
    """Return the blocks of a raylet on a machine of its own.

    Nearly the same one ten times, each past a port that may be in use.
    """
    return Blocks(starts=tuple(range(FIRST, FIRST + 100, PINNED)), size=WIDE)


def heads() -> Blocks:
    """Return the blocks of heads on a machine that may also have a raylet."""
    return narrow(FIRST + 100 + WIDE)
