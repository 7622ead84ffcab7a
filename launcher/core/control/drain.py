"""Leaving a node that still works: ranks are told, get their time for a checkpoint, and only then the slot moves."""

from launcher.core.control.spares import ask, free
from launcher.core.control.state import Draft
from launcher.core.model.actions import Reason, Relocate, Resize, Signal, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import GangName, Member
from launcher.core.model.text import count

_TOLD = Reason(why=Why.DRAIN, message="its ranks were told to stop, and nothing has to be left any more")


def draining(name: GangName) -> str:
    """Return under which key it is kept since when ranks of a gang have their time for a checkpoint."""
    return f"draining:{name}"


def drain(draft: Draft) -> None:
    """Find the slots that have to leave their nodes and have a place to go; those may move that are not in use."""
    for key in sorted(draft.moving):
        reason = Reason(why=Why.RELOCATE, message=f"an operator wants {key} elsewhere")
        part = draft.index.parts[key]
        racks = tuple(sorted({draft.index.nodes[name].rack for name in part.nodes}))
        draft.do(Relocate(reason=reason, slice=key, without=(*part.nodes, *part.spares), without_racks=racks))
    if draft.resizing:
        _resize(draft)
        return
    begun = any(draining(name) in draft.since for name in draft.gangs)
    if not draft.seen.drained and not begun and all(at_home(draft, member) for member in draft.members):
        return
    head = draft.head_node in draft.seen.drained and draft.head_asked
    for name in draft.gangs:
        reasons = _movers(draft, name)
        if head and draft.head_node not in draft.holders and not draft.over(name):
            reasons = reasons or {draft.head_node: _drained(draft, draft.head_node)} if draft.head_node else reasons
        _leave(draft, name, reasons)


def _resize(draft: Draft) -> None:
    """End every attempt, with time for a checkpoint, and then let the run become what it was asked to."""
    reason = Reason(why=Why.RESIZE, message="it gets more or fewer slices")
    for name in draft.gangs:
        gang = draft.gangs[name]
        if draft.over(name) or gang.attempt == 0 or gang.broken:
            continue
        if not _in_grace(draft, name, reason):
            draft.break_gang(name, reason)
            draft.since.pop(draining(name), None)
    ended = all(draft.over(name) or gang.attempt == 0 or gang.broken for name, gang in draft.gangs.items())
    if ended and not draft.kills:
        draft.do(Resize(reason=reason))


def at_home(draft: Draft, member: Member) -> bool:
    """Whether the holder of a slot is in its slice: it is not, once the slice was placed again."""
    kept = draft.index.kept.get(draft.slots[member.name].node)
    home = draft.index.home(member)
    return kept is not None and (kept.key == home.key or kept.place == home.place)


def _movers(draft: Draft, name: GangName) -> dict[NodeName, Reason]:
    """Return the nodes that slots of a gang have to leave, as many as have somewhere to go, and why."""
    begun = draining(name) in draft.since  # from then on, an exit is the answer to our signal
    found: dict[NodeName, Reason] = {}
    taken: dict[str, int] = {}
    asked: set[NodeName] = set()
    away: dict[str, list[Member]] = {}
    for member in draft.of_gang(name):
        node = draft.slots[member.name].node
        finished = member.name in draft.exits and draft.exits[member.name].ok and not begun
        if node in asked or finished:
            continue
        asked.add(node)
        part = draft.index.home(member)
        if not at_home(draft, member):
            away.setdefault(part.key, []).append(member)
        elif node in draft.seen.drained and node not in draft.failed_nodes:
            reason = _drained(draft, node)
            if sum(1 for other in free(draft, member) if draft.sees(other)) > taken.get(part.key, 0):
                taken[part.key] = taken.get(part.key, 0) + 1
                found[node] = reason
            else:
                draft.notes.append(f"{node} is drained, and has no spare in {part.place}")
                ask(draft, member, reason)
    for members in away.values():
        found.update(_movers_away(draft, members))
    return found


def _movers_away(draft: Draft, members: list[Member]) -> dict[NodeName, Reason]:
    """Return the nodes that slots of a slice leave for its new place: all of them, or none while that lacks a node."""
    part = draft.index.home(members[0])
    reason = Reason(why=Why.RELOCATE, message=f"{part.key} goes to {part.place}")
    ready = [name for name in free(draft, members[0]) if draft.sees(name)]
    if len(ready) >= len(members):
        nodes = (draft.slots[member.name].node for member in members)
        return {node: reason for node in nodes if node not in draft.failed_nodes}
    message = f"{part.key} goes to {part.place} once it has {count(len(members), 'node')} there, not {len(ready)}"
    if draft.gangs[draft.gang_of(members[0])].broken:
        draft.waiting_for = draft.waiting_for or message
    else:
        draft.notes.append(message)
    ask(draft, members[0], reason)
    return {}


def _drained(draft: Draft, node: NodeName) -> Reason:
    return Reason(why=Why.DRAIN, message=f"{node} is drained: {draft.seen.drained[node]}")


def _leave(draft: Draft, name: GangName, reasons: dict[NodeName, Reason]) -> None:
    gang = draft.gangs[name]
    if not reasons and draining(name) not in draft.since:
        return
    # Ranks that were told to stop do so, also where nothing has to be left any more: then they start again.
    reason = next(iter(reasons.values()), _TOLD)
    if gang.attempt == 0 or gang.broken or not _in_grace(draft, name, reason):
        draft.break_gang(name, reason)
        draft.leaving |= reasons.keys()
        draft.since.pop(draining(name), None)


def _in_grace(draft: Draft, name: GangName, reason: Reason) -> bool:
    """Whether ranks of a gang still have time to write a checkpoint; each node is told once, by receipt."""
    members = draft.of_gang(name)
    running = [draft.slots[member.name].node for member in members if _runs(draft, member)]
    mixed = {draft.slots[member.name].node for member in members if draft.index.mixed(member)}
    grace = draft.run.task.stop_grace
    if not running or draft.lasted(draining(name)) >= grace:
        return False
    draft.wake(draft.since[draining(name)] + grace)
    for node in running:
        gang = name if node in mixed else None
        if (node if gang is None else f"{node}:{gang}") not in draft.signalled:
            draft.do(Signal(reason=reason, node=node, signal=draft.run.task.stop_signal, gang=gang))
    return True


def _runs(draft: Draft, member: Member) -> bool:
    """Whether a rank runs on the node of a slot that is told to stop with it."""
    agent = draft.agent(draft.slots[member.name].node)
    ranks = agent.ranks if agent else ()
    alone = draft.index.mixed(member)
    return any(rank.running and (not alone or rank.member == member.name) for rank in ranks)
