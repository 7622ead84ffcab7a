"""Starting the ranks of gangs."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from launcher.core.control.conditions import Condition, condition
from launcher.core.control.fault_attribution import gathered
from launcher.core.control.reservation import is_verified
from launcher.core.control.startup import BEGIN
from launcher.core.control.state import Tick
from launcher.core.model.actions import Start
from launcher.core.model.record import Gang
from launcher.core.model.run import GangName

_BEGUN = (Condition.SERVING, Condition.FINISHED, Condition.FAILED, Condition.READY)


def start_gangs(tick: Tick) -> None:
    """Start gangs whose slots are ready, slices verified and kills done.

    Reads `conditions`, `kills`, `record.verified`, the timers of drains. Writes `record.gangs` (the next attempt),
    `signalled`, the timers of evidence; `started`; `actions`.
    """
    if tick.head() is None or tick.record.resizing or tick.record.dropping:
        return
    fenced = {kill.gang for kill in tick.kills.values()}
    slices = {part.key for part in tick.run.placement.slices if is_verified(tick, part)}
    slots = tuple(tick.record.slots[member.name] for member in tick.index.members)
    for name in tick.record.gangs:
        if name not in fenced and _may_start(tick, name, slices):
            conditions = [condition(tick, member) for member in tick.index.by_gang[name]]
            gang = tick.record.gangs[name]
            if (gang.attempt == 0 or gang.broken) and all(state is Condition.READY for state in conditions):
                reason = gang.broken or BEGIN
                gang = _begin_attempt(tick, name, gang)
            elif _half_begun(gang, conditions):
                reason = BEGIN  # the start is journalled and its effect not seen: start again, as the same attempt
            else:
                continue
            tick.do(Start(reason=reason, gang=name, attempt=gang.attempt, restarts=gang.restarts, slots=slots))


def _may_start(tick: Tick, name: GangName, verified: AbstractSet[str]) -> bool:
    gang, members = tick.record.gangs[name], tick.index.by_gang[name]
    if not (gang.attempt == 0 or gang.broken or any(condition(tick, one) is Condition.READY for one in members)):
        return False
    if name in tick.record.since.draining or (gang.broken and not gathered(tick, name)):
        return False
    return all(member.slice_key in verified for member in members)


def _begin_attempt(tick: Tick, name: GangName, gang: Gang) -> Gang:
    gang = tick.record.gangs[name] = Gang(attempt=gang.attempt + 1, restarts=gang.restarts)
    tick.started = True
    tick.record.since.evidence.pop(name, None)
    nodes = {tick.node_of(member) for member in tick.index.by_gang[name]}
    tick.record.signalled -= {(node, told) for node in nodes for told in (None, name)}
    return gang


def _half_begun(gang: Gang, conditions: Sequence[Condition]) -> bool:
    """Whether an attempt has begun, and some of its ranks are still only ready.

    All of its ranks are in sight.
    """
    known = all(condition in _BEGUN for condition in conditions)
    return gang.attempt > 0 and not gang.broken and known and Condition.READY in conditions
