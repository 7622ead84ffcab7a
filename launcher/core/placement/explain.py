"""Why a task does not fit: every place with what it offered, each node that is not free under one reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node
from launcher.core.model.nodeset import NodeName, natural
from launcher.core.model.placement import Exclusion, Placement, RackAnswer, Shortfall, Slice, Taken, group_of
from launcher.core.model.task import Group, Task
from launcher.core.placement.colocation import hosts
from launcher.core.placement.constraints import Bounds, Spot, bounds, ground, within_scale
from launcher.core.placement.filters import Sieve
from launcher.core.placement.solver import Miss
from launcher.core.placement.suggestions import changes


def explain(
    miss: Miss, task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], kept: Sequence[Slice] = ()
) -> Shortfall:
    """Return the full account of a miss, as things stand after the slices that did find room."""
    sieve = Sieve(miss.group, taken, miss.promised, miss.bounds)
    found = account(miss.group, inventory, sieve, placed=miss.placed, proven=miss.proven)
    return replace(found, changes=changes(miss, task, inventory, taken, kept))


def account(group: Group, inventory: Inventory, sieve: Sieve, *, placed: int, proven: bool) -> Shortfall:
    """Return what each place offers a group now, without what would have to change."""
    rule = group.topology
    return Shortfall(
        group=group.name,
        slices=rule.slices,
        nodes_per_slice=rule.nodes_per_slice,
        spares=rule.spares,
        spares_per_rack=rule.spares_per_rack,
        within=rule.within,
        placed=placed,
        proven=proven,
        largest=_largest(inventory, sieve),
        racks=answers(inventory, sieve),
        changes=(),
        sick=_sick(inventory, sieve),
    )


def _sick(inventory: Inventory, sieve: Sieve) -> Mapping[NodeName, str]:
    """Return what is wrong with each node that is kept out for it."""
    found = [node.name for node in inventory.nodes if sieve.reason(node) is Exclusion.SICK]
    return {name: sieve.taken[name].sick or "" for name in found}


def _largest(inventory: Inventory, sieve: Sieve) -> int:
    """Return the most nodes one more slice could have where the rules of the task let it be."""
    rule = sieve.group.topology
    scale, members = within_scale(rule), ground(rule.spread_members)
    rooms: dict[Spot | None, list[str]] = {}
    for node in inventory.nodes:
        if sieve.reason(node) is None:
            rooms.setdefault(scale.spot(node), []).append(node.at(members) or "" if members else node.name)
    return max((len(set(room)) for room in rooms.values()), default=0)


@dataclass(slots=True)
class _Row:
    """The nodes of one place, counted."""

    total: int = 0
    free: int = 0
    excluded: Counter[Exclusion] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)


def answers(inventory: Inventory, sieve: Sieve) -> tuple[RackAnswer, ...]:
    """Return a row for each place of the `within` level, for each rack where that is `node` or `any`."""
    rows: dict[str, _Row] = {}
    domains = domains_of(inventory)
    for node in inventory.nodes:
        row = rows.setdefault(label(node, sieve.group.topology.within, domains), _Row())
        row.total += 1
        reason = sieve.reason(node)
        if reason is None:
            row.free += 1
            continue
        row.excluded[reason] += 1
        run = sieve.taken[node.name].by_run if reason is Exclusion.IN_USE else None
        if run is not None:
            row.users[run] += 1
        if reason is Exclusion.KIND:
            row.kinds[node.accelerator or "none named"] += 1
    return tuple(
        RackAnswer(
            rack=label,
            total=row.total,
            free=row.free,
            excluded={reason: row.excluded[reason] for reason in Exclusion if row.excluded[reason]},
            users={run: row.users[run] for run in sorted(row.users, key=natural)},
            kinds={kind: row.kinds[kind] for kind in sorted(row.kinds, key=natural)},
        )
        for label, row in sorted(rows.items(), key=lambda item: natural(item[0]))
    )


def domains_of(inventory: Inventory) -> Mapping[str, set[str]]:
    """Return the NVLink domains that are known of each rack."""
    domains: dict[str, set[str]] = {}
    for node in inventory.nodes:
        known = domains.setdefault(node.rack, set())
        if node.domain is not None:
            known.add(node.domain)
    return domains


def label(node: Node, within: str, domains: Mapping[str, set[str]]) -> str:
    """Return the name of a node's row; a rack of several NVLink domains has a row for each."""
    if within == RACK_LEVEL and len(domains[node.rack]) > 1:
        return f"{node.rack} (domain {node.domain or 'unknown'})"
    if within in (RACK_LEVEL, NODE_LEVEL, ANY_LEVEL):
        return node.rack
    return node.at(within) or f"{node.rack} (no {within})"


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
    """Return every place for every group that has nodes of its own, in the order of the task and by name."""
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
