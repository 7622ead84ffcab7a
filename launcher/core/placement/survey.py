"""Why slices went where they are: for each group and place what was free, what is left, and why it was taken or not."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.inventory import ANY_LEVEL, Inventory, NodeName
from launcher.core.model.placement import Exclusion, Placement, RackAnswer, Taken, group_of
from launcher.core.model.task import Group, Task
from launcher.core.placement.colocation import hosts
from launcher.core.placement.constraints import Bounds, bounds
from launcher.core.placement.explain import answers, domains_of, label
from launcher.core.placement.filters import Sieve


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """What a place offered a group, the nodes left of it with the whole task placed, the slices that went there (those
    of other groups too), and one sentence for why."""

    group: str
    offer: RackAnswer
    left: int
    slices: tuple[str, ...]
    why: str


def survey(
    task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement
) -> tuple[Surveyed, ...]:
    """Answer every place for every group that has nodes of its own, in the order of the task and by name."""
    task = hosts(task)
    return tuple(one for group in task.groups for one in _of_group(task, group, inventory, taken, placement))


@dataclass(slots=True)
class _Tally:
    """What is left of a place once the task is placed: of it `room` for more of the group, or why there is none."""

    left: int = 0
    room: int = 0
    closed: Exclusion | None = None
    slices: dict[str, None] = field(default_factory=dict)


def _of_group(
    task: Task, group: Group, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement
) -> Sequence[Surveyed]:
    sieve = Sieve(group, taken, frozenset())
    own = {one.name for one in task.groups}
    limits = bounds(task, group.name, inventory, taken, [part for part in placement.slices if part.group in own])
    tallies = _tallies(inventory, sieve, limits, placement)
    offers = answers(inventory, sieve)
    keys = [part.key for part in placement.slices]
    fullest = max((offer.free for offer in offers if _own(group, tallies[offer.rack])), default=0)
    return [
        Surveyed(
            group=group.name,
            offer=offer,
            left=tallies[offer.rack].left,
            slices=tuple(sorted(tallies[offer.rack].slices, key=keys.index)),
            why=_why(group, offer, tallies[offer.rack], fullest),
        )
        for offer in offers
    ]


def _tallies(inventory: Inventory, sieve: Sieve, limits: Bounds, placement: Placement) -> Mapping[str, _Tally]:
    holders: dict[NodeName, list[str]] = {}
    for part in placement.slices:
        for name in (*part.nodes, *part.spares):
            holders.setdefault(name, []).append(part.key)
    domains = domains_of(inventory)
    tallies: dict[str, _Tally] = {}
    for node in inventory.nodes:
        tally = tallies.setdefault(label(node, sieve.group.topology.within, domains), _Tally())
        if node.name in holders:
            tally.slices.update(dict.fromkeys(holders[node.name]))
        elif sieve.reason(node) is None:
            why = limits.reason(node)
            tally.left += 1
            tally.room += why is None
            tally.closed = min((one for one in (why, tally.closed) if one), key=list(Exclusion).index, default=None)
    return tallies


def _own(group: Group, tally: _Tally) -> list[str]:
    return [key for key in tally.slices if group_of(key) == group.name]


def _why(group: Group, offer: RackAnswer, tally: _Tally, fullest: int) -> str:
    rule = group.topology
    need = rule.nodes_per_slice + rule.spares + rule.spares_per_rack
    if own := _own(group, tally):
        return "chosen for " + ", ".join(f"`{key}`" for key in own)
    if not offer.free:
        return "nothing free"
    if offer.free < need and rule.within != ANY_LEVEL:
        return f"a slice needs {need}"
    if tally.room < need and tally.closed is not None:
        return tally.closed.value
    if tally.room < need and rule.within != ANY_LEVEL:
        return f"{tally.room} left beside the other slices, and a slice needs {need}"
    if offer.free > fullest:
        return "has room: kept for larger work, for fuller ones hold this"
    return "has room: as good, but farther off or later by name"
