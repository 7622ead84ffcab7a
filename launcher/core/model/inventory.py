"""Nodes, and the inventory that lists them by rack."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NewType

from launcher.core.model.buckets import StorageSettings
from launcher.core.model.checks import CheckPolicy
from launcher.core.model.container import Engine
from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import SimSettings
from launcher.core.model.traffic import LinkSpeeds

RackName = NewType("RackName", str)

RACK_LEVEL = "rack"
NODE_LEVEL = "node"
ANY_LEVEL = "any"


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What the nodes of a transport are, and so what can be done with them.

    `own_machines`: each is a machine with an address, host key, drivers and IMEX of its own. `this_machine`: all are
    parts of the launching machine, whose shell, files and Python they share. `imaginary`: no program runs on them; they
    answer at once, in virtual time.
    """

    own_machines: bool = False
    this_machine: bool = False
    imaginary: bool = False


class Transport(Enum):
    """How the nodes of an inventory are reached."""

    SSH = "ssh"
    LOCAL = "local"
    SIM = "sim"

    @property
    def capabilities(self) -> Capabilities:
        """Return what the nodes of this transport are."""
        return _CAPABILITIES[self]


_CAPABILITIES: Mapping[Transport, Capabilities] = {
    Transport.SSH: Capabilities(own_machines=True),
    Transport.LOCAL: Capabilities(this_machine=True),
    Transport.SIM: Capabilities(imaginary=True),
}


class GpuDriver(Enum):
    """The GPU driver of a node.

    NONE is a CPU node: no GPU facts apply, and its GPUs are declared to Ray only.
    """

    NVIDIA = "nvidia"
    NONE = "none"


class HostKeyPolicy(Enum):
    """Whether the host key of a machine that nothing is known of is accepted and kept, or refused."""

    LEARN = "learn"
    STRICT = "strict"


class ImexMode(Enum):
    """What a run does about IMEX on its nodes.

    Start it where needed, use what already runs, or nothing.
    """

    MANAGE = "manage"
    ADOPT = "adopt"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to log in to a machine; None uses the default of the transport.

    Without `python` the launcher creates an environment on the machine. `wheels` names the folder to install it from,
    on that machine or else on the launching machine.
    """

    address: str
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    proxy_jump: str | None = None
    host_key: str | None = None
    python: str | None = None
    wheels: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine that can run ranks.

    `places` names its domain at each level above the rack, coarse to fine. With `accelerator` None, real GPUs match no
    kind that a task names, and the declared GPUs of a CPU node match any.
    """

    name: NodeName
    rack: RackName
    access: Access
    domain: str | None = None
    gpus: int = 4
    accelerator: str | None = None
    tray: int | None = None
    places: Mapping[str, str] = field(default_factory=dict)
    drained: str | None = None
    gpu_driver: GpuDriver = GpuDriver.NVIDIA
    env: Mapping[str, str] = field(default_factory=dict)

    def at(self, level: str) -> str | None:
        """Return the name of the node's domain at a level; None if unknown."""
        if level == NODE_LEVEL:
            return self.name
        if level == RACK_LEVEL:
            return self.rack
        return self.places.get(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class DefragPolicy:
    """When slices are moved without being asked for.

    Moves cost at most `budget_gpu_hours_per_day` in any 24 hours, begin in none of the `quiet_hours` (minutes of the
    day from and to, local time), and save at least `min_benefit` GPU-hours of waiting for each GPU-hour that they cost.
    """

    budget_gpu_hours_per_day: float = 100.0
    quiet_hours: tuple[tuple[int, int], ...] = ()
    min_benefit: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The machines that tasks are placed on.

    `levels` run from coarse to fine and end with `rack`. In the inventory of a run, `domains` lists the addresses of
    all nodes of each NVLink domain the run uses, in tray order. It includes nodes that the run does not have, so that
    replacing a node does not change it. `links` has the racks with other speeds than the defaults; None: unknown.
    `storage` says how nodes reach buckets, by scheme (`s3`) or bucket (`s3://data`).
    """

    name: str
    transport: Transport
    nodes: tuple[Node, ...]
    levels: tuple[str, ...] = (RACK_LEVEL,)
    head: Access | None = None
    fence_command: str | None = None
    power_query: str | None = None
    lease_path: str = "/run/lock/nvlaunch"
    ray_tls: bool = False
    host_keys: HostKeyPolicy = HostKeyPolicy.LEARN
    imex: ImexMode = ImexMode.ADOPT
    container_engine: Engine | None = None
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sim: SimSettings | None = None
    defrag: DefragPolicy = DefragPolicy()
    checks: CheckPolicy = field(default_factory=CheckPolicy)
    source: str = "built-in"
    links: Mapping[RackName, LinkSpeeds | None] = field(default_factory=dict)
    storage: Mapping[str, StorageSettings] = field(default_factory=dict)

    @property
    def capabilities(self) -> Capabilities:
        """Return what the nodes of this inventory are."""
        return self.transport.capabilities

    @property
    def speed(self) -> float:
        """Return how many seconds pass on the nodes in one real second: other than 1 on imaginary nodes alone."""
        return (self.sim or SimSettings()).speed if self.capabilities.imaginary else 1.0

    def link_speeds(self, rack: RackName) -> LinkSpeeds | None:
        """Return the bandwidth of the GPUs of a rack; None if it is unknown."""
        return self.links.get(rack, LinkSpeeds())

    def cut_down(self, names: Iterable[NodeName]) -> "Inventory":
        """Return the inventory of a run that has these nodes only."""
        ours = frozenset(names)
        nodes = tuple(node for node in self.nodes if node.name in ours)
        wanted = {node.domain for node in nodes if node.domain and node.gpu_driver is not GpuDriver.NONE}
        by_tray = sorted(enumerate(self.nodes), key=lambda item: (item[1].rack, _tray(item[1], item[0])))
        addresses: dict[str, list[str]] = {domain: [] for domain in sorted(wanted)}
        for _, node in by_tray:
            if node.domain in addresses:
                addresses[node.domain].append(node.access.address)
        return replace(self, nodes=nodes, domains={domain: tuple(found) for domain, found in addresses.items()})


def _tray(node: Node, place: int) -> tuple[int, int]:
    """Return the sort key of a tray: its number, or else its position in the file."""
    return (place if node.tray is None else node.tray, place)
