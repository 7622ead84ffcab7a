"""Placement groups in Ray, one per slice: reserve, verify, remove.

A slice of a driver without `reserve` has none: it is verified by Ray's table of nodes alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from launcher.core.control.conditions import Condition, condition, needed
from launcher.core.control.drain import at_home
from launcher.core.control.head_failover import begin_cluster
from launcher.core.control.startup import why_start
from launcher.core.control.state import Tick
from launcher.core.control.timing import PLACE_S, PLACE_TRIES, TRIES
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Reason, Reserve, Unreserve, Verify, Why
from launcher.core.model.observation import GroupReport, GroupState, Head
from launcher.core.model.placement import Slice, group_of
from launcher.core.model.receipt import Bundle
from launcher.core.model.run import Member, is_spare, spare_label

_UP = (Condition.READY, Condition.SERVING, Condition.FINISHED)


def reserve_slices(tick: Tick) -> None:
    """Reserve each slice whose slots are all up, and verify it before ranks start.

    What holds a spare that has a slot now, or is gone, is removed.

    Reads `conditions`, the head. Writes `record.verified`, `stale`, `misplaced`, `regrouped`, the timers of placing;
    `actions`; for a slice that Ray places nowhere all that `begin_cluster` changes.
    """
    head = tick.head()
    groups = {group.slice: group for group in head.groups} if head else {}
    unreserved = {group.name for group in tick.run.task.groups if not group.reserved}
    ours = {group.name for group in tick.run.task.groups} - unreserved
    domains = _domains(head) if head and unreserved else {}
    for part in tick.run.placement.slices:
        if tick.head() is None or not _ready(tick, part):
            continue
        if part.group in unreserved:
            _verify_nodes(tick, part, domains)
        else:
            _reserve(tick, part, groups.get(part.key))
    held = {spare_label(generation) for generation in tick.record.spares.values()}
    for group in groups.values() if tick.head() is not None else ():
        if is_spare(group.slice):
            if group.slice not in held and group.state is not GroupState.REMOVED:
                _remove(tick, group.slice, Why.START, f"no spare is held by {group.slice} any more")
            continue
        if group_of(group.slice) not in ours:
            continue  # a driver makes groups of its own, which may have no name
        if group.slice not in tick.index.slices and group.state is not GroupState.REMOVED:
            _remove(tick, group.slice, Why.RESIZE, f"{group.slice} was removed from the run")


def _ready(tick: Tick, part: Slice) -> bool:
    members = tick.index.by_slice[part.key]
    for member in members:
        found = needed(tick, member)
        # Ray would never have a slice in one place that is only on its way there.
        if found not in _UP or (found is not Condition.FINISHED and not at_home(tick, member)):
            return False
    return True


def _domains(head: Head) -> dict[tuple[str, int], str | None]:
    """Return the domain of each live raylet in Ray's table, by slot and generation."""
    return {(node.slot, node.generation): node.domain for node in head.nodes if node.alive}


def _verify_nodes(tick: Tick, part: Slice, domains: Mapping[tuple[str, int], str | None]) -> None:
    """Verify a slice without a placement group by Ray's table of nodes.

    Ray has the raylet of each slot alive, in the slice's domain.
    """
    record, slots = tick.record, tick.record.slots
    record.stale.discard(part.key)
    members = tick.index.by_slice[part.key]
    raylets = [(slots[one.name].label(one), slots[one.name].generation) for one in members]
    if all(one in domains and part.domain in (None, domains[one]) for one in raylets):
        record.verified[part.key] = _generations(tick, part)
    else:
        record.verified.pop(part.key, None)


def _reserve(tick: Tick, part: Slice, group: GroupReport | None) -> None:
    record, removed = tick.record, group is None or group.state is GroupState.REMOVED
    if tick.in_flight.has(ActionKey("reserve", slice=part.key)):
        return  # by its labels of then: whether they are those of now is seen once the group is there
    if part.key in record.stale and not removed:
        if any(_goes_on(tick, member) for member in tick.index.by_slice[part.key]):
            return  # Ray ends whatever runs in a group that is removed
        tick.do(Unreserve(reason=_why_stale(tick, part), slice=part.key))
        return
    record.stale.discard(part.key)
    if group is None or removed:
        record.verified.pop(part.key, None)  # what Ray answered was about another group
        reason = why_start(tick, tick.index.by_slice[part.key][0])
        tick.do(Reserve(reason=reason, slice=part.key, labels=_labels(tick, part)))
    elif group.state is GroupState.CREATED:
        record.since.placing.pop(part.key, None)
        record.regrouped.pop(part.key, None)
        if not is_verified(tick, part):
            _verify(tick, part, group)
    else:
        _hasten(tick, part, group)


def _goes_on(tick: Tick, member: Member) -> bool:
    """Whether a rank runs whose attempt goes on."""
    return condition(tick, member) is Condition.SERVING and not tick.gang_of(member).broken


def _why_stale(tick: Tick, part: Slice) -> Reason:
    """Return why a slice's placement group is of no use: what ended the attempt of a rank there, or its move."""
    ended = (tick.gang_of(member).broken for member in tick.index.by_slice[part.key])
    moved = Reason(why=Why.RELOCATE, message=f"{part.key} has moved{part.to_place}")
    return next((reason for reason in ended if reason is not None), moved)


def _verify(tick: Tick, part: Slice, group: GroupReport) -> None:
    """Ask Ray where the bundles are; remove a group outside the slice's domain, or for other raylets than its own."""
    outside = any(part.domain is not None and bundle.domain not in (None, part.domain) for bundle in group.bundles)
    labels = _labels(tick, part)
    # A group for fewer bundles than the slice has slots, or on a raylet of another label, never becomes right.
    outside = outside or any(bundle.slot not in (None, *labels[bundle.index :][:1]) for bundle in group.bundles)
    wrong = tick.record.misplaced.get(part.key)
    if outside or (wrong and wrong.count >= TRIES):
        tick.record.misplaced.pop(part.key, None)
        found = ", ".join(sorted({bundle.domain or "no domain" for bundle in group.bundles}))
        message = f"Ray placed {part.key} in {found}, not on its slots{part.in_place}"
        _remove(tick, part.key, Why.MISPLACED, message)
    else:
        tick.do(Verify(reason=why_start(tick, tick.index.by_slice[part.key][0]), slice=part.key))


def apply_bundles(tick: Tick, key: str, bundles: Sequence[Bundle]) -> None:
    """Take in where Ray has the bundles of a slice.

    The slice is verified if each is on the present node of its slot.
    """
    part, record, verify = tick.index.slices.get(key), tick.record, ActionKey("verify", slice=key)
    if part is None:
        return  # the slice went meanwhile
    if _placed_right(tick, part, bundles):
        record.verified[key] = _generations(tick, part)
        tick.retries.pop(verify, None)
        record.misplaced.pop(key, None)
    else:
        # Ray's table may lag behind a raylet that was replaced: ask again. A wrong answer is no failure to answer:
        # those are counted from 0 again.
        record.verified.pop(key, None)
        record.misplaced[key] = tick.retry_after(record.misplaced.get(key))
        tick.retries[verify] = replace(record.misplaced[key], count=0)


def _placed_right(tick: Tick, part: Slice, bundles: Sequence[Bundle]) -> bool:
    found, members = {bundle.index: bundle for bundle in bundles}, tick.index.by_slice[part.key]
    return len(found) == len(members) and all(
        (bundle := found.get(member.slice_rank)) is not None
        and bundle.slot == tick.record.slots[member.name].label(member)
        and bundle.generation == tick.record.slots[member.name].generation
        and (part.domain is None or bundle.domain == part.domain)
        for member in members
    )


def _hasten(tick: Tick, part: Slice, group: GroupReport) -> None:
    """Remove a group that Ray does not place although a slot waits to start in it.

    Seen with Ray 2.60 after a lost raylet was replaced: RESCHEDULING, FAILED_TO_COMMIT_RESOURCES, without an end. A
    group removed in that state may leave a bundle behind, so that the next one finds no room
    (https://github.com/ray-project/ray/pull/66188): then only a new cluster helps.
    """
    key, placing, regrouped = part.key, tick.record.since.placing, tick.record.regrouped
    conditions = {condition(tick, member) for member in tick.index.by_slice[key]}
    if Condition.SERVING in conditions or Condition.READY not in conditions:
        placing.pop(key, None)
        return
    if tick.lasted(placing, key) < PLACE_S:
        tick.wake(placing[key] + PLACE_S)
        return
    del placing[key]
    regrouped[key] = regrouped.get(key, 0) + 1
    if regrouped[key] > PLACE_TRIES:
        message = f"Ray did not place {key} in {PLACE_TRIES + 1} tries: restarting the Ray cluster"
        begin_cluster(tick, tick.head_node, message)
        return
    message = f"Ray did not place {key} within {PLACE_S:.0f} s ({group.state.value}, {group.hint or 'no reason'})"
    _remove(tick, key, Why.MISPLACED, message)


def is_verified(tick: Tick, part: Slice) -> bool:
    """Whether Ray has every bundle of a slice on the present node of its slot."""
    return tick.record.verified.get(part.key) == _generations(tick, part)


def _labels(tick: Tick, part: Slice) -> tuple[str, ...]:
    return tuple(tick.record.slots[member.name].label(member) for member in tick.index.by_slice[part.key])


def _generations(tick: Tick, part: Slice) -> tuple[int, ...]:
    return tuple(tick.record.slots[member.name].generation for member in tick.index.by_slice[part.key])


def _remove(tick: Tick, key: str, why: Why, message: str) -> None:
    tick.do(Unreserve(reason=Reason(why=why, message=message), slice=key))
