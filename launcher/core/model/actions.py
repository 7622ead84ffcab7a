"""What can be done: idempotent actions, each with its reason."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, TypeAlias

from launcher.core.model.inventory import RackName
from launcher.core.model.move_order import MoveOrder
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import GangName, MemberName, Slot


class Why(Enum):
    """The kinds of reason that actions carry."""

    START = "start"
    RESTART = "restart"
    REJOIN = "rejoin"
    REPLACE = "replace"
    MISPLACED = "misplaced"
    RELOCATE = "relocate"
    DRAIN = "drain"
    RESIZE = "resize"
    HEAD = "head"
    STOP = "stop"
    FINISHED = "finished"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why something is done: its kind, and a sentence for people."""

    why: Why
    message: str


class Level(Enum):
    """How much of a run a kill ends on a node; each level includes those after it."""

    NODE = "node"
    GENERATION = "generation"
    RANK = "rank"


class Unit(Enum):
    """Which agent on a machine: that of a slot, with the lease, or that of the head."""

    SLOT = "slot"
    HEAD = "head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Acquire:
    """Acquire the node's lease and start its agent."""

    reason: Reason
    node: NodeName
    kind: Literal["acquire"] = "acquire"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Upload files to a leased node and start its setup; returns before `setup` has ended."""

    reason: Reason
    node: NodeName
    member: MemberName
    kind: Literal["prepare"] = "prepare"


@dataclass(frozen=True, slots=True, kw_only=True)
class StartHead:
    """Start the run's Ray head with its agent and supervisor, on its own storage if it was there before.

    A new `cluster` starts without, on the node that has the head by then.
    """

    reason: Reason
    cluster: int = 0
    kind: Literal["start_head"] = "start_head"


@dataclass(frozen=True, slots=True, kw_only=True)
class Join:
    """Start the raylet of a slot, or of a spare, on its node, labelled with slot and topology levels."""

    reason: Reason
    slot: Slot
    kind: Literal["join"] = "join"


@dataclass(frozen=True, slots=True, kw_only=True)
class Park:
    """Hold the raylet of a spare: a placement group takes all of its CPUs and GPUs, so that nothing runs there."""

    reason: Reason
    slot: Slot
    kind: Literal["park"] = "park"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserve:
    """Create a slice's placement group: a bundle per slot, pinned to the label of its raylet and to the domain.

    `labels` are those of the raylets in rank order; without any, those that slots give.
    """

    reason: Reason
    slice: str
    labels: tuple[str, ...] = field(default=(), compare=False)
    kind: Literal["reserve"] = "reserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Unreserve:
    """Remove the placement group of a slice, or the one that holds a spare, from Ray."""

    reason: Reason
    slice: str
    kind: Literal["unreserve"] = "unreserve"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verify:
    """Ask Ray where each bundle of a slice is now; the receipt has the bundles."""

    reason: Reason
    slice: str
    kind: Literal["verify"] = "verify"


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Start the ranks of a gang for an attempt; `slots` are all of the run, for addresses."""

    reason: Reason
    gang: GangName
    attempt: int
    restarts: int
    slots: tuple[Slot, ...] = field(default=(), compare=False)
    kind: Literal["start"] = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Send the stop signal to all ranks on a node, or to those of one gang."""

    reason: Reason
    node: NodeName
    signal: str
    gang: GangName | None = None
    kind: Literal["signal"] = "signal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Announce:
    """Tell Ray that the raylet of a slot is about to be left, at `deadline` (s since the epoch)."""

    reason: Reason
    slot: Slot
    deadline: float
    kind: Literal["announce"] = "announce"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kill:
    """Kill processes of the run on a node until two scans for their marker are empty.

    RANK: ranks of `member` up to `attempt`. GENERATION: raylet and ranks up to `generation`. NODE: all of the run.
    `gang` must not start again before the kill has succeeded. `reused`: the run will start something there again, so
    that the GPUs of the slot must be free of other users too (result `not_free` where they are not).
    """

    reason: Reason
    node: NodeName
    level: Level
    member: MemberName
    gang: GangName
    attempt: int = 0
    generation: int = 0
    reused: bool = False
    kind: Literal["kill"] = "kill"


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Kill all of a unit of a machine, stop its agent and release the lease."""

    reason: Reason
    node: NodeName | None
    unit: Unit = Unit.SLOT
    kind: Literal["release"] = "release"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerOff:
    """Run the inventory's `fence_command` for an unreachable node."""

    reason: Reason
    node: NodeName
    kind: Literal["power_off"] = "power_off"


@dataclass(frozen=True, slots=True, kw_only=True)
class PowerQuery:
    """Ask by the inventory's `power_query` whether an unreachable node is off."""

    reason: Reason
    node: NodeName
    kind: Literal["power_query"] = "power_query"


@dataclass(frozen=True, slots=True, kw_only=True)
class AddSpare:
    """Add a free node of a slice's rack and domain as a spare; the receipt names it."""

    reason: Reason
    slice: str
    kind: Literal["add_spare"] = "add_spare"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnSpare:
    """Give a node back that holds no slot of the run and is more than the spares that its task asks for."""

    reason: Reason
    node: NodeName
    kind: Literal["return_spare"] = "return_spare"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relocate:
    """Place a whole slice again, on no node of `without` or `without_racks`; the receipt names its new nodes."""

    reason: Reason
    slice: str
    without: tuple[NodeName, ...] = ()
    without_racks: tuple[RackName, ...] = ()
    kind: Literal["relocate"] = "relocate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Give slices the nodes that a plan reserved for them, or their old ones again: all of them, or none."""

    reason: Reason
    order: MoveOrder
    back: bool = False
    kind: Literal["move"] = "move"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resize:
    """Give the run the slices of its target, or `drop` a slice: the last one takes its index."""

    reason: Reason
    drop: str | None = None
    kind: Literal["resize"] = "resize"


@dataclass(frozen=True, slots=True, kw_only=True)
class Grow:
    """Claim nodes for more slices, as many as fit; a resize then gives them to the run."""

    reason: Reason
    kind: Literal["grow"] = "grow"


NodeAction: TypeAlias = (
    Acquire
    | Prepare
    | StartHead
    | Join
    | Park
    | Reserve
    | Unreserve
    | Verify
    | Start
    | Announce
    | Signal
    | Kill
    | Release
    | PowerOff
    | PowerQuery
)
"""Done on machines, through `Nodes`."""

AllotAction: TypeAlias = AddSpare | ReturnSpare | Relocate | Move | Resize | Grow
"""Changes which nodes the run has, through `Allotter`."""

Action: TypeAlias = NodeAction | AllotAction
