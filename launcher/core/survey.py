"""Why slices went where they are: for each group and place what was free, what is left, and why it was taken or not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.core.bounds import bounds
from launcher.core.eligible import Sieve
from launcher.core.fleet import ANY_LEVEL, Inventory, NodeName
from launcher.core.placement import Exclusion, Placement, RackAnswer, Taken
from launcher.core.shortfall import answers, domains_of, label
from launcher.core.task import Group, Task


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
    """Answer every place for every group, in the order of the task and by name."""
    return tuple(one for group in task.groups for one in _of_group(task, group, inventory, taken, placement))


def _of_group(
    task: Task, group: Group, inventory: Inventory, taken: Mapping[NodeName, Taken], placement: Placement
) -> Sequence[Surveyed]:
    sieve = Sieve(group, taken, frozenset())
    holder = {name: part.key for part in placement.slices for name in (*part.nodes, *part.spares)}
    limits = bounds(task, group.name, inventory, taken, placement.slices)
    domains = domains_of(inventory)
    left: Counter[str] = Counter()
    open_to: Counter[str] = Counter()
    closed: dict[str, Exclusion] = {}
    slices: dict[str, dict[str, None]] = {}
    for node in inventory.nodes:
        place = label(node, group.topology.within, domains)
        if node.name in holder:
            slices.setdefault(place, {})[holder[node.name]] = None
        elif sieve.reason(node) is None:
            left[place] += 1
            why = limits.reason(node)
            open_to[place] += why is None
            if why is not None:
                closed[place] = why
    keys = [part.key for part in placement.slices]
    offers = answers(inventory, sieve)
    fullest = max((offer.free for offer in offers if _own(group, slices.get(offer.rack, {}))), default=0)
    return [
        Surveyed(
            group=group.name,
            offer=offer,
            left=left[offer.rack],
            slices=tuple(sorted(slices.get(offer.rack, {}), key=keys.index)),
            why=_why(group, offer, slices.get(offer.rack, {}), open_to[offer.rack], closed.get(offer.rack), fullest),
        )
        for offer in offers
    ]


def _own(group: Group, slices: Mapping[str, None]) -> list[str]:
    return [key for key in slices if key.rpartition("/")[0] == group.name]


def _why(
    group: Group, offer: RackAnswer, slices: Mapping[str, None], room: int, closed: Exclusion | None, fullest: int
) -> str:
    rule = group.topology
    if own := _own(group, slices):
        return "chosen for " + ", ".join(f"`{key}`" for key in own)
    if not offer.free:
        return "nothing free"
    need = rule.nodes_per_slice + rule.spares + rule.spares_per_rack
    if offer.free < need and rule.within != ANY_LEVEL:
        return f"a slice needs {need}"
    if room < need and closed is not None:
        return closed.value
    if room < need:
        return (
            f"{room} left beside the other slices, and a slice needs {need}"
            if rule.within != ANY_LEVEL
            else "not needed"
        )
    if offer.free > fullest:
        return "has room: kept for larger work, for fuller ones hold this"
    return "has room: as good, but farther off or later by name"
