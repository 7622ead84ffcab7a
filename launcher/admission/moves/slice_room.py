"""How many slices of common sizes have room, now and after moves of slices that may move."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from launcher.admission.domains import guessed
from launcher.admission.moves.placed_tasks import placed_tasks
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.placement import Unavailable, UnavailableNodes
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.planner.defragment import slices_with_room
from launcher.core.planner.relocation import PlacedTask
from launcher.errors import OtherVersionError
from launcher.store.store import Store

SIZES = (4, 8, 12, 16, 18)
"""Nodes of a slice: parts of a rack of 18, and all of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SliceRoom:
    """How many slices of one size and kind of node have room now, and after moves."""

    accelerator: str | None
    gpus_per_node: int
    nodes: int
    now: int
    after_moves: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomListing:
    """Room by kind and size, how many slices may move, and an error for each unreadable run."""

    rooms: tuple[SliceRoom, ...]
    movable: int
    unreadable: tuple[OtherVersionError, ...]


def slice_room(store: Store, fleet: Inventory) -> RoomListing:
    """Return the room for slices in an inventory; queued runs are not counted."""
    known = guessed(fleet, store.domains.of(fleet.name))
    unavailable = store.unavailable(fleet)
    placed, unreadable = placed_tasks(store, fleet.name)
    rooms = [room for kind in _kinds(known) for room in _of_kind(known, unavailable, placed, kind)]
    movable = sum(len(run.own_slices()) for run in placed if run.movable)
    return RoomListing(rooms=tuple(rooms), movable=movable, unreadable=unreadable)


_Kind = tuple[str, int]


def _kind(node: Node) -> _Kind:
    return node.accelerator or "", node.gpus


def _kinds(fleet: Inventory) -> list[_Kind]:
    return sorted({_kind(node) for node in fleet.nodes if node.gpus > 0})


def _of_kind(
    fleet: Inventory, unavailable: UnavailableNodes, placed: Sequence[PlacedTask], kind: _Kind
) -> Iterator[SliceRoom]:
    """Return the room on nodes of one kind: the others count as out of service."""
    others = {node.name: Unavailable(drained="of another kind") for node in fleet.nodes if _kind(node) != kind}
    for nodes in _sizes(fleet, kind):
        rule = TopologyRule(nodes_per_slice=nodes)
        task = Task(name="room", groups=(Group(name="room", topology=rule),))
        now, after = slices_with_room(fleet, {**unavailable, **others}, placed, task)
        yield SliceRoom(accelerator=kind[0] or None, gpus_per_node=kind[1], nodes=nodes, now=now, after_moves=after)


def _sizes(fleet: Inventory, kind: _Kind) -> list[int]:
    """Return the common sizes that fit the largest NVLink domain, and its own."""
    domains: dict[tuple[str, str | None], int] = {}
    for node in fleet.nodes:
        if _kind(node) == kind:
            domains[node.rack, node.domain] = domains.get((node.rack, node.domain), 0) + 1
    largest = max(domains.values())
    return [*(size for size in SIZES if size < largest), largest]
