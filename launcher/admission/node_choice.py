"""Nodes that a run gets besides its own, or instead of them: choices from the whole inventory, not claimed yet."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.core.control.resized_record import hindrance
from launcher.core.model.actions import AddSpare, Move, Relocate, ReturnSpare
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Shortfall, Slice, Unavailable, UnavailableNodes, mark_unhealthy
from launcher.core.model.record import Record
from launcher.core.model.run import Run, Target
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.placement.capacity import rank_order
from launcher.core.placement.colocation import with_colocated_slices
from launcher.core.placement.place import exclusive_nodes
from launcher.core.placement.replacement import find_spare, lost_together, move_slices, replace_slice, slice_on
from launcher.core.placement.resize import resize
from launcher.core.placement.slice_range import as_placed
from launcher.store.stored_plan import Reservation


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeChoice:
    """Nodes for a slice, from the whole inventory, and the run once it has them."""

    nodes: tuple[Node, ...]
    run: Run


@dataclass(frozen=True, slots=True, kw_only=True)
class NoChoice:
    """Why there are no nodes."""

    message: str


def choose_spare(
    action: AddSpare, now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory
) -> NodeChoice | NoChoice:
    """Return one more node for a slice of a run, or why there is none."""
    part = _slice(now, action.slice)
    if part is None:
        return NoChoice(message=f"slice `{action.slice}` is no longer part of the run")
    unfit = {name for name, use in unavailable.items() if use.unhealthy or use.drained} | record.failed_nodes.keys()
    holders = {slot.node for slot in record.slots.values()}
    for name in part.spares:
        if name not in holders and name not in unfit:
            return NodeChoice(nodes=_nodes(now.fleet, (name,)), run=now)
    found = find_spare(now.task, fleet, _without(unavailable, record.failed_nodes), now.placement, part)
    if found is None:
        return NoChoice(message=f"no free node for slice `{part.key}`{part.in_place}")
    nodes = _nodes(fleet, (found,))
    return NodeChoice(nodes=nodes, run=_with(now, replace(part, spares=(*part.spares, found)), nodes, fleet))


def choose_return(action: ReturnSpare, now: Run, record: Record, fleet: Inventory) -> NodeChoice | NoChoice:
    """Return the run without a node that holds no slot, or why it cannot be without it.

    A slice keeps as many nodes as it has ranks: where it has to do without one of these, the node that holds the slot
    takes its place.
    """
    gone, holders = action.node, {member: slot.node for member, slot in record.slots.items()}
    if gone not in now.placement.nodes:
        return NodeChoice(nodes=(), run=now)
    if gone in holders.values() or now.target is not None:
        return NoChoice(message=f"`{gone}` is in use" if now.target is None else "the run is about to be resized")
    slices = [replace(part, spares=_but(part.spares, gone)) for part in now.placement.slices]
    owners = {group.name for group in now.task.groups if group.topology.nodes_of is None}
    at = next((at for at, part in enumerate(slices) if gone in part.nodes and part.group in owners), None)
    if at is not None:
        part = slices[at]
        used = [holders[member.name] for member in now.members() if member.slice_key == part.key]
        own = used[part.nodes.index(gone)]
        new = next((name for name in (own, *used) if name not in part.nodes), None)
        if new is None:
            return NoChoice(message=f"`{gone}` is in use")
        slices = [replace(other, spares=_but(other.spares, new)) for other in slices]
        nodes = tuple(new if name == gone else name for name in part.nodes)
        slices[at] = replace(slices[at], nodes=nodes)
    return NodeChoice(nodes=(), run=_placed(now, tuple(slices), (), now.fleet.domains, fleet))


def choose_place(
    action: Relocate, now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory
) -> NodeChoice | NoChoice:
    """Return nodes elsewhere for a slice of a run, or why there are none."""
    part = _slice(now, action.slice)
    if part is None:
        return NoChoice(message=f"slice `{action.slice}` is no longer part of the run")
    if not set(part.nodes) & (record.requested | record.failed_nodes.keys() | set(action.without)):
        return NodeChoice(nodes=_nodes(now.fleet, (*part.nodes, *part.spares)), run=now)
    ranks = {member.name for member in now.members() if member.slice_key == part.key}
    own = {*part.nodes, *part.spares, *(slot.node for slot in record.slots.values() if slot.member in ranks)}
    free = {name: use for name, use in unavailable.items() if name not in own or use.unhealthy or use.drained}
    left = [node.name for node in fleet.nodes if node.rack in action.without_racks]
    excluded = _without(free, (*record.failed_nodes, *action.without, *left))
    lost = lost_together(now.task, now.placement, record.failed_nodes)
    found = replace_slice(now.task, fleet, excluded, now.placement, part, lost)
    if isinstance(found, Shortfall):
        return NoChoice(message=f"slice `{part.key}` fits nowhere else: {_shortfall(found)}")
    nodes = _nodes(fleet, (*found.nodes, *found.spares))
    return NodeChoice(nodes=nodes, run=_with(now, found, nodes, fleet))


def choose_move(
    action: Move,
    now: Run,
    record: Record,
    unavailable: UnavailableNodes,
    fleet: Inventory,
    reserved: Mapping[NodeName, Reservation],
) -> NodeChoice | NoChoice:
    """Return the nodes that a plan reserved for slices of a run, or why they cannot have them.

    Slices that go back get their old nodes, whatever state these are in: their ranks are still there.
    """
    wanted = {part.slice: part.nodes for part in action.order.slices}
    parts = {part.key: part for part in now.placement.slices}
    if not wanted.keys() <= parts.keys():
        return NoChoice(message=f"{fold(wanted.keys() - parts.keys())} is no longer part of the run")
    if all({*parts[key].nodes, *parts[key].spares} == {*names} for key, names in wanted.items()):
        return NodeChoice(nodes=(), run=now)
    mine = Reservation(plan=action.order.plan, run=now.name)
    if not action.back and any(reserved.get(name) != mine for names in wanted.values() for name in names):
        return NoChoice(message=f"plan `{action.order.plan}` has ended: its nodes are not reserved any more")
    if action.back:
        for key, own in wanted.items():
            nodes = _nodes(now.fleet, own)
            now = _with(now, slice_on(now.task, parts[key], nodes), nodes, fleet)
        return NodeChoice(nodes=(), run=now)
    order = {node.name: at for at, node in enumerate(sorted(fleet.nodes, key=rank_order))}
    wanted = {key: tuple(sorted(own, key=lambda name: order.get(name, 0))) for key, own in wanted.items()}
    found = move_slices(now.task, fleet, _without(unavailable, record.failed_nodes), now.placement, wanted)
    if isinstance(found, str):
        return NoChoice(message=found)
    nodes = _nodes(fleet, (name for own in wanted.values() for name in own))
    for part in found:
        now = _with(now, part, nodes, fleet)
    return NodeChoice(nodes=nodes, run=now)


def choose_target(
    task: Task, now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory
) -> NodeChoice | NoChoice:
    """Return the nodes that a run needs for a task with more or fewer slices, as many as fit, or why there are none."""
    ours, before = set(now.placement.nodes), _without_extra_spares(now)
    free = _without(
        {name: use for name, use in unavailable.items() if name not in ours}, record.failed_nodes.keys() - ours
    )
    extra = {name: Unavailable(used_by=now.name) for name in ours - set(before.nodes)}
    found = resize(task, fleet, {**free, **extra}, before)
    if isinstance(found, Shortfall):
        return NoChoice(message=f"new slices of `{found.group}` do not fit: {_shortfall(found)}")
    if torn := [old.key for old, new in found.moved if old.nodes != new.nodes]:
        return NoChoice(message=f"{fold(torn)} would have to move")
    nodes = _nodes(fleet, (name for part in found.added for name in (*part.nodes, *part.spares)))
    target = Target(
        task=as_placed(task, found.placement.slices),
        comes=found.added,
        goes=tuple(part.key for part in found.removed),
        fleet=fleet.cut_down(node.name for node in nodes),
    )
    aimed = replace(now, target=target)
    message = hindrance(aimed, record)
    return NoChoice(message=message) if message else NodeChoice(nodes=nodes, run=aimed)


def choose_growth(now: Run, record: Record, unavailable: UnavailableNodes, fleet: Inventory) -> NodeChoice | NoChoice:
    """Return the run that aims at more slices, as many as fit, and its new nodes."""
    if now.target is not None:
        return NodeChoice(nodes=(), run=now)  # claimed before, and the answer was lost
    found = choose_target(now.task.full(), now, record, unavailable, fleet)
    if isinstance(found, NodeChoice) and not found.nodes:
        return NoChoice(message="no room for another slice")
    return found


def shrunk_run(now: Run, record: Record, key: str, fleet: Inventory) -> Run | NoChoice:
    """Return the run without a slice; the last slice of its group takes the index.

    Nodes claimed for a resize that was not applied are given up. A spare of the slice that serves another one stays.
    """
    gone = _slice(now, key)
    if gone is None or record.dropping != key:
        return NoChoice(message=f"slice `{key}` is not to be dropped")
    last = max((part for part in now.placement.slices if part.group == gone.group), key=lambda part: part.index)
    held: dict[str, list[NodeName]] = {}
    for member in now.members():
        held.setdefault(member.slice_key, []).append(record.slots[member.name].node)
    slices: list[Slice] = []
    for part in now.placement.slices:
        if part is not last:
            stays = last if part is gone else part
            lent = (name for name in held[stays.key] if name in gone.spares and name not in stays.spares)
            slices.append(replace(stays, index=part.index, spares=(*stays.spares, *lent)))
    task = now.task.with_slices({gone.group: now.task.group(gone.group).topology.slices - 1})
    return _placed(replace(now, task=task, target=None), tuple(slices), (), now.fleet.domains, fleet)


def resized_run(now: Run, fleet: Inventory) -> Run:
    """Return the resized run, with the current placement of slices that stay."""
    target = now.target
    if target is None:
        return now
    order = {group.name: at for at, group in enumerate(target.task.groups)}
    stay = [part for part in now.placement.slices if part.key not in target.goes]
    slices = tuple(sorted((*stay, *target.comes), key=lambda part: (order[part.group], part.index)))
    aimed = replace(now, task=target.task, target=None)
    return _placed(aimed, slices, _new(now, target.fleet.nodes), target.fleet.domains, fleet)


def _but(names: tuple[NodeName, ...], gone: NodeName) -> tuple[NodeName, ...]:
    return tuple(name for name in names if name != gone)


def _slice(run: Run, key: str) -> Slice | None:
    return next((part for part in run.placement.slices if part.key == key), None)


def _with(run: Run, part: Slice, nodes: Sequence[Node], fleet: Inventory) -> Run:
    """Return the run with another slice under the same key."""
    slices = tuple(part if part.key == other.key else other for other in run.placement.slices)
    more = _new(run, nodes)
    return _placed(run, slices, more, fleet.cut_down(node.name for node in more).domains, fleet)


def _without_extra_spares(run: Run) -> Placement:
    """Return the placement of a run without the spares that slices got beyond their rule: a slot may be on them."""
    rules = {group.name: group.topology for group in run.task.groups}
    slices = (
        replace(part, spares=part.spares[: rules[part.group].spares + rules[part.group].spares_per_rack])
        for part in run.placement.slices
    )
    return replace(run.placement, slices=tuple(slices))


def _new(run: Run, nodes: Sequence[Node]) -> tuple[Node, ...]:
    known = {node.name for node in run.fleet.nodes}
    return tuple(node for node in nodes if node.name not in known)


def _placed(
    run: Run, slices: tuple[Slice, ...], more: Sequence[Node], domains: Mapping[str, tuple[str, ...]], fleet: Inventory
) -> Run:
    """Return the run on these slices, with `more` nodes and their domains.

    Its fleet keeps every node that it ever had, and the NVLink domains of these.
    """
    slices = with_colocated_slices(run.task, slices)
    grown = replace(run.fleet, nodes=(*run.fleet.nodes, *more), domains={**domains, **run.fleet.domains})
    placement = Placement(
        slices=slices, reasons=run.placement.reasons, exclusive_nodes=exclusive_nodes(run.task, fleet, slices)
    )
    return replace(run, placement=placement, fleet=grown)


def _nodes(fleet: Inventory, names: Iterable[NodeName]) -> tuple[Node, ...]:
    known = {node.name: node for node in fleet.nodes}
    return tuple(known[name] for name in names)


def _without(unavailable: UnavailableNodes, names: Iterable[NodeName]) -> UnavailableNodes:
    """Return the unavailable nodes, with those that the run itself excluded."""
    return mark_unhealthy(unavailable, dict.fromkeys(names, "excluded by the run"))


def _shortfall(shortfall: Shortfall) -> str:
    need = shortfall.nodes_per_slice + shortfall.spares
    return f"needs {count(need, 'node')} in one place, at most {shortfall.largest} are free"
