"""Slices that a plan of moves wants on named nodes: what is asked, and how far it is."""

from dataclasses import dataclass
from enum import Enum

from launcher.core.model.nodeset import NodeName, expand, fold

_BACK = "back"


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceNodes:
    """A slice and all nodes that it gets or had, spares too."""

    slice: str
    nodes: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveOrder:
    """Slices of a run that move together, by the id of the plan that reserved their nodes.

    Without slices: what has not moved yet of the plan's order goes back.
    """

    plan: str
    slices: tuple[SliceNodes, ...] = ()

    def __str__(self) -> str:
        """Return the subject of the operator request, which `read_order` reads."""
        parts = [f"{part.slice}={fold(part.nodes)}" for part in self.slices]
        return " ".join((self.plan, *(parts or (_BACK,))))


def read_order(subject: str) -> MoveOrder | None:
    """Return the order that the subject of a request to relocate has; None where it names only a slice."""
    plan, *parts = subject.split(" ")
    if not parts:
        return None
    pairs = [part.partition("=") for part in parts if part != _BACK]
    try:
        slices = tuple(SliceNodes(slice=key, nodes=tuple(map(NodeName, expand(nodes)))) for key, _, nodes in pairs)
    except ValueError:
        slices = ()
    return MoveOrder(plan=plan, slices=slices)


class MovePhase(Enum):
    """How far a move is: asked for, with nodes at both places, or going back."""

    ASKED = "asked"
    ALLOTTED = "allotted"
    RETURNING = "returning"


@dataclass(frozen=True, slots=True, kw_only=True)
class PendingMove:
    """A move that has not ended, and where its slices were before."""

    order: MoveOrder
    old: tuple[SliceNodes, ...]
    phase: MovePhase = MovePhase.ASKED

    @property
    def keys(self) -> frozenset[str]:
        """Return the slices that move."""
        return frozenset(part.slice for part in self.old)
