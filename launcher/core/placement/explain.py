"""Why a task does not fit: every place with what it offered, each node that is not free under one reason."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node, NodeName
from launcher.core.model.nodeset import natural
from launcher.core.model.placement import Exclusion, RackAnswer, Shortfall, Slice, Taken
from launcher.core.model.task import Group, Task
from launcher.core.placement.constraints import Spot, ground, within_scale
from launcher.core.placement.filters import Sieve
from launcher.core.placement.solver import Miss
from launcher.core.placement.suggestions import changes


def explain(
    miss: Miss, task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken], kept: Sequence[Slice] = ()
) -> Shortfall:
    """Answer the full account of a miss, as things stand after the slices that did find room."""
    sieve = Sieve(miss.group, taken, miss.promised, miss.bounds)
    found = account(miss.group, inventory, sieve, placed=miss.placed, proven=miss.proven)
    return replace(found, changes=changes(miss, task, inventory, taken, kept))


def account(group: Group, inventory: Inventory, sieve: Sieve, *, placed: int, proven: bool) -> Shortfall:
    """Answer what each place offers a group now, without what would have to change."""
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
    """Answer what is wrong with each node that is kept out for it."""
    found = [node.name for node in inventory.nodes if sieve.reason(node) is Exclusion.SICK]
    return {name: sieve.taken[name].sick or "" for name in found}


def _largest(inventory: Inventory, sieve: Sieve) -> int:
    """Answer the most nodes one more slice could have where the rules of the task let it be."""
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
    """Answer a row for each place of the `within` level, for each rack where that is `node` or `any`."""
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
    """Answer the NVLink domains that are known of each rack."""
    domains: dict[str, set[str]] = {}
    for node in inventory.nodes:
        known = domains.setdefault(node.rack, set())
        if node.domain is not None:
            known.add(node.domain)
    return domains


def label(node: Node, within: str, domains: Mapping[str, set[str]]) -> str:
    """Answer the name of a node's row; a rack of several NVLink domains has a row for each."""
    if within == RACK_LEVEL and len(domains[node.rack]) > 1:
        return f"{node.rack} (domain {node.domain or 'unknown'})"
    if within in (RACK_LEVEL, NODE_LEVEL, ANY_LEVEL):
        return node.rack
    return node.at(within) or f"{node.rack} (no {within})"
