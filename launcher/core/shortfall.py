"""Why a task does not fit: every place with what it offered, each node that is not free under one reason."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from launcher.core.assign import Miss
from launcher.core.eligible import Sieve, gather
from launcher.core.fleet import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Inventory, Node, NodeName
from launcher.core.nodeset import natural
from launcher.core.placement import Exclusion, RackAnswer, Shortfall, Taken
from launcher.core.remedy import changes
from launcher.core.task import Task


def explain(miss: Miss, task: Task, inventory: Inventory, taken: Mapping[NodeName, Taken]) -> Shortfall:
    """Answer the full account of a miss, as things stand after the slices that did find room."""
    found = account(miss, inventory, Sieve(miss.group, taken, miss.promised))
    return replace(found, changes=changes(miss, task, inventory, taken))


def account(miss: Miss, inventory: Inventory, sieve: Sieve) -> Shortfall:
    """Answer what each place offered, without what would have to change."""
    rule = miss.group.topology
    return Shortfall(
        group=miss.group.name,
        slices=rule.slices,
        nodes_per_slice=rule.nodes_per_slice,
        spares=rule.spares,
        within=rule.within,
        placed=len(miss.picks),
        largest=_largest(miss, inventory, sieve),
        racks=_answers(inventory, sieve),
        changes=(),
        sick=_sick(inventory, sieve),
    )


def _sick(inventory: Inventory, sieve: Sieve) -> Mapping[NodeName, str]:
    """Answer what is wrong with each node that is kept out for it."""
    found = [node.name for node in inventory.nodes if sieve.reason(node) is Exclusion.SICK]
    return {name: sieve.taken[name].sick or "" for name in found}


def _largest(miss: Miss, inventory: Inventory, sieve: Sieve) -> int:
    """Answer the most nodes one more slice could have, where `spread` lets it be."""
    within = miss.group.topology.within
    grounds = {node.at(sieve.spread) for pick in miss.picks for node in pick.nodes} if sieve.spread else set()
    room: Counter[tuple[str, str | None]] = Counter()
    for cell in gather(inventory, sieve):
        if cell.ground is None or cell.ground not in grounds:
            room[cell.place, cell.domain if within == RACK_LEVEL else None] += len(cell.free)
    most = max(room.values(), default=0)
    return min(most, 1) if within == NODE_LEVEL else most


@dataclass(slots=True)
class _Row:
    """The nodes of one place, counted."""

    total: int = 0
    free: int = 0
    excluded: Counter[Exclusion] = field(default_factory=Counter)
    users: Counter[str] = field(default_factory=Counter)


def _answers(inventory: Inventory, sieve: Sieve) -> tuple[RackAnswer, ...]:
    """Answer a row for each place of the `within` level, for each rack where that is `node` or `any`."""
    rows: dict[str, _Row] = {}
    domains = _domains(inventory)
    for node in inventory.nodes:
        row = rows.setdefault(_label(node, sieve.group.topology.within, domains), _Row())
        row.total += 1
        reason = sieve.reason(node)
        if reason is None:
            row.free += 1
            continue
        row.excluded[reason] += 1
        run = sieve.taken[node.name].by_run if reason is Exclusion.IN_USE else None
        if run is not None:
            row.users[run] += 1
    return tuple(
        RackAnswer(
            rack=label,
            total=row.total,
            free=row.free,
            excluded={reason: row.excluded[reason] for reason in Exclusion if row.excluded[reason]},
            users={run: row.users[run] for run in sorted(row.users, key=natural)},
        )
        for label, row in sorted(rows.items(), key=lambda item: natural(item[0]))
    )


def _domains(inventory: Inventory) -> Mapping[str, set[str]]:
    domains: dict[str, set[str]] = {}
    for node in inventory.nodes:
        known = domains.setdefault(node.rack, set())
        if node.domain is not None:
            known.add(node.domain)
    return domains


def _label(node: Node, within: str, domains: Mapping[str, set[str]]) -> str:
    """Answer the name of a node's row; a rack of several NVLink domains has a row for each."""
    if within == RACK_LEVEL and len(domains[node.rack]) > 1:
        return f"{node.rack} (domain {node.domain or 'unknown'})"
    if within in (RACK_LEVEL, NODE_LEVEL, ANY_LEVEL):
        return node.rack
    return node.at(within) or f"{node.rack} (no {within})"
