"""Leave nodes that work, for a drain, a relocation or a resize: signal ranks, give time for a checkpoint, move slots.

A relocation of a slice, step by step: a request is noted (`operator`); a new place is asked for here, and chosen
outside the kernel (`admission/reallocate`); its receipt gives the slice its new nodes, which are acquired as spares
(`receipts`); once all of them are ready here, the ranks of the gang are signalled and end; each slot takes a new node
(`node_failure`, `spares.replace_node`); the old placement group is dropped and a new one reserved (`reservation`); the
old nodes are released (`teardown`).
"""

from dataclasses import replace

from launcher.core.control import drain_notice, slice_count, spares
from launcher.core.control.blame.slow_node import slow_movers
from launcher.core.control.state import Tick
from launcher.core.control.timing import EXPIRED_S, MOVE_S
from launcher.core.model.actions import Move, Reason, Relocate, Resize, Signal, Why
from launcher.core.model.move_order import MoveOrder, MovePhase, PendingMove, SliceNodes
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import group_of
from launcher.core.model.record import RunTimer
from launcher.core.model.run import GangName, Member
from launcher.core.model.text import count

_TOLD = Reason(why=Why.DRAIN, message="ranks were signalled for a drain that is over")


def drain(tick: Tick) -> None:
    """Find slots that have to leave their nodes; move those whose ranks have stopped.

    Reads `seen.drained`, `record.relocating`, `resizing`, `dropping`, `holders`, where slots are. Writes `leaving`,
    `record.move`, `record.noticed`, `record.since.draining`, `gangs` and `kills` (attempts end); `actions` (relocate,
    move, resize, announce, signal, add a spare), `notes`, `hold_reason`.
    """
    record = tick.record
    for key in sorted(record.relocating):
        reason = Reason(why=Why.RELOCATE, message=f"operator relocates {key}")
        part = tick.index.slices[key]
        racks = tuple(sorted({tick.index.nodes[name].rack for name in part.nodes}))
        tick.do(Relocate(reason=reason, slice=key, without=(*part.nodes, *part.spares), without_racks=racks))
    if record.move is not None:
        _go_on(tick, record.move)
    if record.resizing or record.dropping:
        _resize(tick)
        return
    drain_notice.renew(tick)
    begun = not record.since.draining.keys().isdisjoint(record.gangs)
    calm = not tick.seen.drained and not begun and not record.slow_ranks
    if calm and all(at_home(tick, member) for member in tick.index.members):
        return
    for name in record.gangs:
        _leave(tick, name, _movers(tick, name) or slow_movers(tick, name) or _head_mover(tick, name))


def _resize(tick: Tick) -> None:
    """End every attempt, with time for a checkpoint; then give the run its new slices.

    A slice is dropped once the head is not on its nodes.
    """
    reason, draining = _why_resized(tick), tick.record.since.draining
    for name, gang in tick.record.gangs.items():
        finished = tick.over(name) and name not in draining  # once signalled, an exit is the answer to that
        if finished or gang.attempt == 0 or gang.broken:
            continue
        if not _in_grace(tick, name, reason):
            tick.break_gang(name, reason)
            draining.pop(name, None)
    gangs = tick.record.gangs.items()
    ended = all(gang.attempt == 0 or gang.broken or tick.over(name) for name, gang in gangs)
    if ended and not tick.kills and tick.head_node not in slice_count.dropped_nodes(tick):
        tick.do(Resize(reason=reason, drop=tick.record.dropping))


def _why_resized(tick: Tick) -> Reason:
    dropping, target = tick.record.dropping, tick.run.target
    if dropping is None:
        counts = {group.name: group.topology.slices for group in target.task.groups} if target else {}
        changes = [
            f"{group.name} goes from {group.topology.slices} to {count(counts[group.name], 'slice')}"
            for group in tick.run.task.groups
            if counts.get(group.name, group.topology.slices) != group.topology.slices
        ]
        return Reason(why=Why.RESIZE, message="; ".join(changes) or "the number of slices changes")
    group = tick.run.group(group_of(dropping))
    left = f"continues with {group.topology.slices - 1} of {group.topology.max_slices} slices"
    return Reason(why=Why.RESIZE, message=f"{tick.record.shrunk[group.name].message}; {group.name} {left}")


def at_home(tick: Tick, member: Member) -> bool:
    """Whether the node of a slot is in its slice.

    It is not, once the slice was placed again.
    """
    part, home = tick.index.slice_of.get(tick.node_of(member)), tick.index.home(member)
    return part is home or (part is not None and (part.key == home.key or part.place == home.place))


def _movers(tick: Tick, name: GangName) -> dict[NodeName, Reason]:
    """Return the nodes that slots of a gang have to leave, and why.

    As many as have somewhere to go.
    """
    begun = name in tick.record.since.draining  # from then on, an exit is the answer to our signal
    found: dict[NodeName, Reason] = {}
    room: dict[str, int] = {}
    asked: set[NodeName] = set()
    away: dict[str, list[Member]] = {}
    for member in tick.index.by_gang[name]:
        node, ended = tick.node_of(member), tick.record.exits.get(member.name)
        if node in asked or (ended is not None and ended.ok and not begun):
            continue
        asked.add(node)
        part = tick.index.home(member)
        if not at_home(tick, member):
            away.setdefault(part.key, []).append(member)
        elif node in tick.seen.drained and node not in tick.record.failed_nodes:
            reason = _drained(tick, node)
            if part.key not in room:
                room[part.key] = sum(1 for other in spares.free(tick, member) if tick.sees(other))
            if room[part.key]:
                room[part.key] -= 1
                found[node] = reason
            else:
                tick.notes.append(f"{node} is drained, but has no spare{part.in_place}")
                spares.ask_for_node(tick, member, reason)
    moving = frozenset() if tick.record.move is None else tick.record.move.keys
    for members in [members for key, members in away.items() if key not in moving]:
        found.update(_movers_away(tick, members))
    together = [members for key, members in away.items() if key in moving]
    return {**found, **(_movers_together(tick, together) if together else {})}


def _movers_together(tick: Tick, slices: list[list[Member]]) -> dict[NodeName, Reason]:
    """Return the nodes that slices leave which move together: those of all slices, so that their gang restarts once.

    None before every slice has the lease of a node for each of its slots: until then all may still go back.
    """
    move = tick.record.move
    assert move is not None
    found: dict[NodeName, Reason] = {}
    for members in slices:
        part = tick.index.home(members[0])
        ready = [name for name in spares.free(tick, members[0]) if tick.sees(name) and name in tick.record.leased]
        if move.phase is not MovePhase.ALLOTTED or len(ready) < len(members):
            tick.notes.append(f"{part.key} is about to move{part.to_place}")
            return {}
        reason = Reason(why=Why.RELOCATE, message=f"{part.key} moves{part.to_place} ({move.order.plan})")
        found.update(dict.fromkeys(map(tick.node_of, members), reason))
    return {node: reason for node, reason in found.items() if node not in tick.record.failed_nodes}


def ask_move(tick: Tick, order: MoveOrder) -> None:
    """Take in that a plan wants slices on nodes that it names, or does not want so any more."""
    record, parts = tick.record, tick.index.slices
    if not order.slices:
        if record.move is not None and record.move.order.plan == order.plan:
            _return(tick, record.move)
        return
    for wanted in order.slices:
        part = parts.get(wanted.slice)
        own = part is not None and tick.index.home(tick.index.by_slice[part.key][0]) is part
        if (
            not own
            or record.move is not None
            or record.resizing
            or record.dropping
            or any(gang.broken for gang in record.gangs.values())
        ):
            tick.notes.append(f"{order.plan} cannot move {wanted.slice} now")
            return
    old = tuple(
        SliceNodes(slice=one.slice, nodes=(*parts[one.slice].nodes, *parts[one.slice].spares)) for one in order.slices
    )
    record.move = PendingMove(order=order, old=old)


def moved(move: PendingMove | None, action: Move) -> PendingMove | None:
    """Return a move after its slices got nodes: it goes on until they are there, and is over once they are back."""
    if move is None or action.back or move.order != action.order:
        return None if action.back else move
    return replace(move, phase=MovePhase.ALLOTTED) if move.phase is MovePhase.ASKED else move


def _go_on(tick: Tick, move: PendingMove) -> None:
    """Ask for the nodes of a move, follow it there, or send it back where a new node fails before anything has left."""
    if move.phase is MovePhase.ALLOTTED:
        members, bad = _moving(tick, move), _unusable(tick, move)
        if not members or any(at_home(tick, member) for member in members):
            tick.record.move = None  # it has left: what is still missing there is a matter of recovery
        elif bad or tick.lasted(tick.record.since.run, RunTimer.MOVING) >= MOVE_S:
            tick.notes.append(f"{fold(bad or move.keys)} is not ready for {move.order.plan}")
            _return(tick, move)
    if tick.record.move is None or tick.record.move.phase is not MovePhase.ALLOTTED:
        tick.record.since.run.pop(RunTimer.MOVING, None)
    if tick.record.move is not None and tick.record.move.phase is not MovePhase.ALLOTTED:
        back = tick.record.move.phase is MovePhase.RETURNING
        order = replace(move.order, slices=move.old) if back else move.order
        message = f"{fold(move.keys)} {'stays' if back else 'moves'} ({move.order.plan})"
        tick.do(Move(reason=Reason(why=Why.RELOCATE, message=message), order=order, back=back))


def _return(tick: Tick, move: PendingMove) -> None:
    """Send back slices that have not left their nodes."""
    old = {name for part in move.old for name in part.nodes}
    if all(tick.node_of(member) in old for member in _moving(tick, move)):
        tick.record.move = replace(move, phase=MovePhase.RETURNING)


def _moving(tick: Tick, move: PendingMove) -> list[Member]:
    """Return the slots that move: not those of ranks that have finished."""
    draining, exits = tick.record.since.draining, tick.record.exits
    members = (member for key in sorted(move.keys) for member in tick.index.by_slice[key])
    return [
        member
        for member in members
        if member.name not in exits or not exits[member.name].ok or tick.index.gangs[member.name] in draining
    ]


def _unusable(tick: Tick, move: PendingMove) -> list[NodeName]:
    """Return the nodes of a new place that cannot take a slot any more."""
    nodes = (name for part in move.order.slices for name in part.nodes)
    left_out = tick.record.failed_nodes.keys() | tick.seen.drained.keys()
    return [name for name in nodes if name in left_out or (not tick.sees(name) and tick.quiet(name) >= EXPIRED_S)]


def _movers_away(tick: Tick, members: list[Member]) -> dict[NodeName, Reason]:
    """Return the nodes that slots of a slice leave for its new place.

    All of them, or none while a node is missing there.
    """
    part = tick.index.home(members[0])
    reason = Reason(why=Why.RELOCATE, message=f"{part.key} moves{part.to_place}")
    ready = [name for name in spares.free(tick, members[0]) if tick.sees(name)]
    if len(ready) >= len(members):
        nodes = (tick.node_of(member) for member in members)
        return {node: reason for node in nodes if node not in tick.record.failed_nodes}
    message = f"{part.key} waits to move{part.to_place}: {len(ready)} of {count(len(members), 'node')} ready there"
    if tick.gang_of(members[0]).broken:
        tick.hold(message)
    else:
        tick.notes.append(message)
    spares.ask_for_node(tick, members[0], reason)
    return {}


def _head_mover(tick: Tick, name: GangName) -> dict[NodeName, Reason]:
    """Return the drained node of the head, if it holds no slot.

    The head moves only while no rank runs.
    """
    node = tick.head_node
    if node is None or node not in tick.seen.drained or node in tick.holders:
        return {}
    return {node: _drained(tick, node)} if tick.record.head_requested and not tick.over(name) else {}


def _drained(tick: Tick, node: NodeName) -> Reason:
    return Reason(why=Why.DRAIN, message=f"{node} is drained: {tick.seen.drained[node]}")


def _leave(tick: Tick, name: GangName, reasons: dict[NodeName, Reason]) -> None:
    """Let a gang leave nodes: signal its ranks, wait, end its attempt, move its slots."""
    gang, draining = tick.record.gangs[name], tick.record.since.draining
    if not reasons and name in draining and drain_notice.withdrawn(tick, name):
        draining.pop(name)
    if not reasons and name not in draining:
        return
    # Ranks that were told to stop do so, also if nothing has to be left any more: then they start again.
    reason = next(iter(reasons.values()), _TOLD)
    begun = gang.attempt > 0 and not gang.broken
    if not begun or not _in_grace(tick, name, reason, after=drain_notice.give(tick, name, reasons)):
        tick.break_gang(name, reason)
        tick.leaving |= reasons.keys()
        draining.pop(name, None)


def _in_grace(tick: Tick, name: GangName, reason: Reason, after: float = 0.0) -> bool:
    """Whether ranks of a gang still have time to write a checkpoint, `after` which they are signalled (s).

    Each node is signalled until a receipt says so.
    """
    draining, task = tick.record.since.draining, tick.run.task
    running = [member for member in tick.index.by_gang[name] if _runs(tick, member)]
    lasted = tick.lasted(draining, name)
    if not running or lasted >= after + task.stop_grace:
        return False
    tick.wake(draining[name] + (after if lasted < after else after + task.stop_grace))
    for member in running if lasted >= after else ():
        node, gang = tick.node_of(member), name if tick.index.shares_node(member) else None
        if (node, gang) not in tick.record.signalled:
            tick.do(Signal(reason=reason, node=node, signal=task.stop_signal, gang=gang))
    return True


def _runs(tick: Tick, member: Member) -> bool:
    """Whether a rank runs on the node of a slot that is told to stop with it."""
    agent = tick.agent(tick.node_of(member))
    alone = tick.index.shares_node(member)
    return any(rank.running and (not alone or rank.member == member.name) for rank in (agent.ranks if agent else ()))
