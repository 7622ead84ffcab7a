"""What exists: nodes, racks and the inventory that lists them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import NewType

from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import SimSettings

RackName = NewType("RackName", str)

RACK_LEVEL = "rack"
NODE_LEVEL = "node"
ANY_LEVEL = "any"


class Transport(Enum):
    """How the nodes of an inventory are reached."""

    SSH = "ssh"
    LOCAL = "local"
    SIM = "sim"


class GpuDriver(Enum):
    """Whether GPU facts apply to a node; NONE is a CPU rack, whose GPUs are pretended to Ray."""

    NVIDIA = "nvidia"
    NONE = "none"


class ImexMode(Enum):
    """What a run does about IMEX on its nodes: start it where it does not run, use what runs, or nothing."""

    MANAGE = "manage"
    ADOPT = "adopt"
    OFF = "off"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to log in to a machine; None means: what the transport finds by itself.

    Without `python`, an environment is made there, from `wheels` where that names a folder: one of its own, or else of
    the launching machine.
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
    """One machine that can be given to a gang. `places` names it at every level above the rack, coarse to fine.

    `accelerator` None: not stated, so real GPUs are of no kind that a task may ask for, and pretended ones of any.
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
        """Return the name of the place of this node at a level; None where the inventory does not say."""
        if level == NODE_LEVEL:
            return self.name
        if level == RACK_LEVEL:
            return self.rack
        return self.places.get(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The machines that tasks are placed on. `levels` are coarse to fine and end with `rack`.

    `domains` names, in the inventory of a run, the addresses of all nodes of each of its NVLink domains, those of
    others too, in tray order: a list that stays the same whichever of them the run has.
    """

    name: str
    transport: Transport
    nodes: tuple[Node, ...]
    levels: tuple[str, ...] = (RACK_LEVEL,)
    head: Access | None = None
    fence_command: str | None = None
    lease_path: str = "/run/lock/nvlaunch"
    imex: ImexMode = ImexMode.ADOPT
    domains: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    sim: SimSettings | None = None
    source: str = "built-in"

    def cut_down(self, names: Iterable[NodeName]) -> "Inventory":
        """Return the inventory of a run that has these nodes."""
        ours = frozenset(names)
        nodes = tuple(node for node in self.nodes if node.name in ours)
        wanted = {node.domain for node in nodes if node.domain and node.gpu_driver is not GpuDriver.NONE}
        by_tray = sorted(enumerate(self.nodes), key=lambda item: (item[1].rack, _tray(item[1], item[0])))
        domains = {
            domain: tuple(node.access.address for _, node in by_tray if node.domain == domain)
            for domain in sorted(wanted)
        }
        return replace(self, nodes=nodes, domains=domains)


def _tray(node: Node, place: int) -> tuple[int, int]:
    """Return what trays of a rack are ordered by: their number, or else their place in the file."""
    return (place if node.tray is None else node.tray, place)
