"""All groups of a task onto one inventory, as one decision: best fit in a few orders, and then every way there is."""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from itertools import islice, permutations

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, Inventory, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, Taken, slice_key
from launcher.core.model.task import Group, Task
from launcher.core.model.text import count
from launcher.core.placement.backtracking import MAX_WORK, GaveUpError, search
from launcher.core.placement.best_fit import Chooser, Option
from launcher.core.placement.capacity import Board, Place, Role, rank_order
from launcher.core.placement.constraints import Bounds
from launcher.core.placement.node_selection import Portion, broken_first, portion_of

MAX_ORDERS = 6
"""How many orders of a task's groups best fit is tried in, all of them for three: each costs a placement."""

MAX_SLICES_TRIED = 500
"""How many slices are placed in all of these orders together: tasks of many groups are tried in fewer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pick:
    """Nodes chosen for one slice, in rank order: members, own spares, and spares that its rack's slices share.

    Its place had `room` free nodes and `rivals` others had enough.
    """

    group: Group
    place: str
    rack: RackName | None
    domain: str | None
    nodes: tuple[Node, ...]
    shared: tuple[Node, ...]
    room: int
    rivals: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A group that does not fit: how many slices of it did, and what others have left it.

    `proven` says that no placement of the task exists; without it none was found.
    """

    group: Group
    placed: int
    promised: AbstractSet[NodeName]
    bounds: Bounds
    proven: bool


def assign(
    task: Task,
    inventory: Inventory,
    taken: Mapping[NodeName, Taken],
    kept: Sequence[Slice] = (),
    work: int = MAX_WORK,
) -> Placement | Miss:
    """Return a placement, or the first group that found no room. Slices in `kept` stay where they are.

    The group with the largest slice chooses first, after the group that it is near to; one that then misses goes to
    the front in the next try. Where best fit fails in each order, everything is searched within `work`.
    """
    misses: list[Miss] = []
    for groups in _orders(task, misses):
        outcome = _best_fit(task, groups, Board(task, inventory, taken, kept), kept)
        if isinstance(outcome, Placement) or outcome.proven:
            return outcome
        misses.append(outcome)
    order = leaders_first(sorted(task.groups, key=_demand))
    try:
        found = _searched(task, order, Board(task, inventory, taken, kept), kept, work)
    except GaveUpError:
        return misses[0]
    return replace(misses[0], proven=True) if found is None else found


def _orders(task: Task, misses: Sequence[Miss]) -> Iterator[Sequence[Group]]:
    """Return orders of the groups, none twice: the one that missed last goes to the front; then any."""
    first = sorted(task.groups, key=_demand)
    slices = sum(group.topology.slices for group in first)
    tries = max(2, min(MAX_ORDERS, MAX_SLICES_TRIED // slices))
    others = islice(permutations(first), MAX_ORDERS)
    tried: list[Sequence[str]] = []
    candidate: Sequence[Group] | None = first
    while candidate is not None and len(tried) < tries:
        order = leaders_first(candidate)
        names = [group.name for group in order]
        if names not in tried:
            tried.append(names)
            yield order
            missed = misses[-1].group
            candidate = [missed, *(group for group in order if group is not missed)]
        else:
            candidate = next(others, None)


def _demand(group: Group) -> tuple[int, int, str]:
    rule = group.topology
    need = rule.nodes_per_slice + rule.spares
    return -need, -need * rule.slices, group.name


def leaders_first(groups: Sequence[Group]) -> Sequence[Group]:
    """Return the groups in their order, but each right after the one that it is near to, while there is room beside."""
    by_name = {group.name: group for group in groups}
    order: dict[str, Group] = {}

    def visit(group: Group, waiting: frozenset[str]) -> None:
        leader = by_name.get(group.topology.near or "")
        if leader is not None and leader.name not in order and leader.name not in waiting:
            visit(leader, waiting | {group.name})
        if group.name not in order:
            order[group.name] = group
            for other in groups:
                if other.topology.near == group.name:
                    visit(other, waiting | {group.name})

    for group in groups:
        visit(group, frozenset())
    return tuple(order.values())


def _best_fit(task: Task, order: Sequence[Group], board: Board, kept: Sequence[Slice]) -> Placement | Miss:
    """Return the placement that best fit finds for groups in this order, or the first that it finds no room for."""
    picks: list[Pick] = []
    for at, group in enumerate(order):
        role = board.roles[group.name]
        chooser = Chooser(board, role)
        own: list[Pick] = []
        while chooser.missing:
            options = chooser.options()
            chosen = chooser.best(options) if options else ()
            given = [_pick(board, role, option, min(chooser.missing, option.slices), len(options)) for option in chosen]
            own += (pick for pick in given if pick is not None)
            if not given or None in given:
                others = any(board.roles[before.name].missing for before in order[:at])
                proven = not others and _independent(board, role)
                return Miss(
                    group=group,
                    placed=role.rule.slices - role.missing + len(own),
                    promised=board.promised,
                    bounds=board.ledger.bounds(group.name),
                    proven=proven,
                )
            for option in chosen:
                chooser.placed(option)
        picks += own
    return _placement(task, picks, kept)


def _independent(board: Board, role: Role) -> bool:
    """Whether a slice in one place never changes how many the others hold, so that best fit misses none."""
    if board.ledger.lonely(role.name):
        return False
    return role.spread is None or all(len({cell.at(role.spread) for cell in place.cells}) < 2 for place in role.places)


def _pick(board: Board, role: Role, option: Option, rounds: int, roomy: int) -> Pick | None:
    """Take the nodes of the next slice; None where its rules cross so that this place does not hold it after all."""
    station = (role.name, id(option.place))
    shared = 0 if station in board.stations else role.rule.spares_per_rack
    portion = portion_of(option.cells, role, role.need + shared, rounds)
    if sum(size for _, size in portion) < role.need + shared:
        return None
    return _given(board, role, option.place, portion, shared, option.room, roomy - 1)


def _given(board: Board, role: Role, place: Place, portion: Portion, shared: int, room: int, rivals: int) -> Pick:
    nodes = sorted(board.give(role, portion), key=rank_order)
    station = (role.name, id(place))
    if shared:
        board.stations[station] = tuple(nodes[role.need :])
    return Pick(
        group=role.group,
        place=nodes[0].name if role.rule.within == NODE_LEVEL else place.name,
        rack=nodes[0].rack if role.local else None,
        domain=nodes[0].domain if role.local else None,
        nodes=tuple(nodes[: role.need]),
        shared=board.stations.get(station, ()),
        room=room,
        rivals=rivals,
    )


def _searched(task: Task, order: Sequence[Group], board: Board, kept: Sequence[Slice], work: int) -> Placement | None:
    found = search(board, [board.roles[group.name] for group in order], work)
    if found is None:
        return None
    picks: list[Pick] = []
    for one in found:
        first = one.parts[0][0][0]
        place = next(place for place in one.role.places if first in place.cells)
        portion = [part for cells, size in one.parts for part in broken_first(cells, one.role, size)]
        picks.append(_given(board, one.role, place, portion, one.shared, place.room, len(one.role.places) - 1))
    return _placement(task, picks, kept)


def _placement(task: Task, picks: Sequence[Pick], kept: Sequence[Slice]) -> Placement:
    """Return the slices of all groups, in the order of the task and there in rank order; kept ones keep their index."""
    slices: list[Slice] = []
    why: list[str] = []
    for group in task.groups:
        found = {
            part.index: (part, f"`{part.key}` stays in `{part.place}`") for part in kept if part.group == group.name
        }
        free = (index for index in range(group.topology.slices) if index not in found)
        own = sorted((pick for pick in picks if pick.group is group), key=lambda pick: rank_order(pick.nodes[0]))
        found.update((index, (_slice(index, pick), _why(index, pick))) for index, pick in zip(free, own, strict=False))
        slices += (found[index][0] for index in sorted(found))
        why += (found[index][1] for index in sorted(found))
    return Placement(slices=tuple(slices), why=tuple(why))


def _slice(index: int, pick: Pick) -> Slice:
    names = tuple(node.name for node in pick.nodes)
    members = pick.group.topology.nodes_per_slice
    return Slice(
        group=pick.group.name,
        index=index,
        place=pick.place,
        rack=pick.rack,
        domain=pick.domain,
        nodes=names[:members],
        spares=(*names[members:], *(node.name for node in pick.shared)),
    )


def _why(index: int, pick: Pick) -> str:
    """Return one sentence: which place a slice got, and what spoke for it."""
    group, rule = pick.group, pick.group.topology
    some = 0 < group.gpus < max(node.gpus for node in pick.nodes)
    part = f", {count(group.gpus, 'GPU')} of each node, and nobody uses the others" if some else ""
    name = f"`{slice_key(group.name, index)}`"
    if rule.within == ANY_LEVEL:
        racks = len({node.rack for node in pick.nodes})
        return f"{name} on {count(racks, 'rack')}: broken racks before whole ones, as few as hold it{part}"
    where = f"{name} in `{pick.place}`: {pick.room} free, {pick.room - len(pick.nodes)} left over"
    return f"{where}, {_reason(pick)}{part}"


def _reason(pick: Pick) -> str:
    rule, rivals = pick.group.topology, pick.rivals
    if not rivals:
        return "the only place with room"
    beside = f" beside `{rule.near}`" if rule.near else ""
    if pick.group.gpus == 0:
        return f"of {rivals + 1} with room{beside} the one that work on GPUs misses least"
    if rule.balance is not None and rule.slices > 1:
        return f"of {rivals + 1} with room{beside} the one that keeps every {rule.balance} even"
    together = rule.prefer or rule.all_within
    near = f" that is near the others at `{together}`" if together else ""
    return f"the fullest of {rivals + 1} {'with room' if near or beside else 'places with room'}{beside}{near}"
