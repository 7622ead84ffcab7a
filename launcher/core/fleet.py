"""What exists: nodes, racks and the inventory that lists them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NewType

NodeName = NewType("NodeName", str)
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How to log in to a machine; None means: what the transport finds by itself.

    Without `python`, an environment is made there, from `wheels` where that names a folder: of the launching machine
    where it has one of that path, else of the machine itself.
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
        """Answer the name of the place of this node at a level; None where the inventory does not say."""
        if level == NODE_LEVEL:
            return self.name
        if level == RACK_LEVEL:
            return self.rack
        return self.places.get(level)


class FaultKind(Enum):
    """What can break on a node of an imaginary fleet; `launcher/sim/faults.py` says what each does."""

    RAYLET_KILLED = "raylet_killed"
    RANK_FAILS = "rank_fails"
    RANK_KILLED = "rank_killed"
    KEEPER_KILLED = "keeper_killed"
    HEAD_KILLED = "head_killed"
    SETUP_FAILS = "setup_fails"
    POWER_CUT = "power_cut"
    LINK_DOWN = "link_down"
    SLOW_START = "slow_start"
    CLAIM_HELD = "claim_held"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that breaks in an imaginary fleet, `at` seconds after the run's first action.

    `duration` is how long it lasts (s); None: what kills strikes once, what holds (a cut, a failing setup, a foreign
    lease) holds for good. `code` is the exit status of what fails.
    """

    at: float
    node: NodeName
    fault: FaultKind
    duration: float | None = None
    code: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """How an imaginary fleet behaves: seconds to start a node, seconds a rank runs, virtual seconds a real one."""

    seed: int = 1
    start_s: float = 3.0
    run_s: float = 600.0
    speed: float = float("inf")
    faults: tuple[Fault, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """The machines that tasks are placed on. `levels` are coarse to fine and end with `rack`."""

    name: str
    transport: Transport
    nodes: tuple[Node, ...]
    levels: tuple[str, ...] = (RACK_LEVEL,)
    head: Access | None = None
    fence_command: str | None = None
    lease_path: str = "/run/lock/nvlaunch"
    sim: SimSettings | None = None
    source: str = "built-in"
