"""Facts that came back: receipts, exits and sights change the record before anything is decided."""

from dataclasses import replace

from typing_extensions import assert_never

from launcher.core.control.fencing import kill_failed
from launcher.core.control.operator import obey
from launcher.core.control.state import LONGEST_WAIT, TRIES, Draft
from launcher.core.model.actions import (
    Acquire,
    Action,
    AddSpare,
    Answer,
    Join,
    Kill,
    PowerOff,
    Prepare,
    Receipt,
    Release,
    Relocate,
    Reserve,
    Resize,
    Result,
    Signal,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Phase, Step, Unseen
from launcher.core.model.placement import Slice
from launcher.core.model.record import Evidence, Exit, Outcome
from launcher.core.model.run import Cause

# Under which key it is counted how often the head was started since it last answered.
HEAD_TRIES = "head_tries"
# The longest wait before others are asked for another node or place once more (s): each time is journalled.
SELDOM = 60.0


def absorb(draft: Draft) -> None:
    """Take in what the observation brought that must outlive it."""
    for receipt in draft.seen.receipts:
        if receipt.seq > draft.receipts_seen:
            draft.receipts_seen = receipt.seq
            _receipt(draft, receipt)
    _sights(draft)
    obey(draft)
    _exits(draft)


def _receipt(draft: Draft, receipt: Receipt) -> None:
    action, answer = receipt.action, receipt.answer
    if answer.result in (Result.DONE, Result.KILLED, Result.POWERED_OFF):
        if not isinstance(action, Verify | AddSpare):  # what was answered is not yet what was needed
            draft.retries.pop(action.key, None)
        _succeeded(draft, action, answer)
    elif answer.result is Result.HELD and isinstance(action, Acquire):
        # Nothing of ours has ever been there: the node is somebody else's, and no attempt is spent on it.
        draft.requested.discard(action.node)
        draft.fail_node(action.node, Evidence(cause=Cause.LEASE_HELD, message=answer.message))
    else:
        _failed(draft, action, answer)


def _succeeded(draft: Draft, action: Action, answer: Answer) -> None:
    match action:
        case Acquire():
            draft.leased.add(action.node)
        case Kill():
            draft.fence_done({action.key})
        case Verify():
            _verified(draft, action.slice, answer)
        case Unreserve():
            draft.verified.pop(action.slice, None)
            draft.stale.discard(action.slice)
        case Signal():
            draft.signalled.add(f"{action.node}:{action.gang}" if action.gang else action.node)
        case PowerOff():
            draft.stopped[action.node] = "it was powered off"
        case Relocate():
            draft.moving.discard(action.slice)
        case Resize():
            draft.resizing = False
        case Release(unit=Unit.HEAD):
            draft.heads = [node for node in draft.heads if node != action.node]
        case StartHead():
            draft.back_off(HEAD_TRIES)
        case AddSpare():
            draft.back_off(action.key, SELDOM)  # should the node be of no use, the next is not asked for at once
        case Prepare() | Join() | Reserve() | Start() | Release():
            pass  # their effect is seen by looking
        case _:
            assert_never(action)


def _failed(draft: Draft, action: Action, answer: Answer) -> None:
    if _overtaken(draft, action):
        draft.retries.pop(action.key, None)
        return
    count = draft.back_off(action.key, SELDOM if isinstance(action, AddSpare | Relocate) else LONGEST_WAIT)
    message = f"{answer.stage or action.kind}: {answer.message}"
    match action:
        case Acquire() | Prepare():
            evidence = Evidence(cause=Cause.PROVISION, message=message, tail=answer.tail)
            if answer.lasting:
                draft.fail_node(action.node, evidence)
            elif draft.sees(action.node):  # of a node that has fallen silent its silence is judged
                blame(draft, action.node, evidence)
        case Join() if draft.sees(action.slot.node):
            blame(draft, action.slot.node, Evidence(cause=Cause.PROVISION, message=message, tail=answer.tail))
        case StartHead() if draft.started:
            draft.back_off(HEAD_TRIES)  # ranks that run need none
        case StartHead() | Reserve() | Unreserve() | Verify() | Start():
            if count >= TRIES:
                draft.end(Outcome(cause=Cause.PROVISION, message=message, tail=answer.tail))
        case Relocate():
            draft.moving.discard(action.slice)
        case Resize():
            draft.resizing = False  # it goes on as it is; the receipt says why
        case Kill():
            kill_failed(draft, action, answer)
        case Join() | Signal() | Release() | PowerOff() | AddSpare():
            pass  # must be done however often it takes; the back-off spaces the tries
        case _:
            assert_never(action)


def _overtaken(draft: Draft, action: Action) -> bool:
    """Whether a failure is no news: what was asked for is there all the same, or is not asked for any more."""
    match action:
        case Acquire():
            return draft.agent(action.node) is not None
        case Prepare():
            agent = draft.agent(action.node)
            return agent is not None and agent.setup.phase in (Phase.RUNNING, Phase.DONE)
        case Join():
            if draft.slots.get(action.slot.member) != action.slot:
                return True
            ray = agent.ray if (agent := draft.agent(action.slot.node)) else Step()
            return ray.phase is Phase.RUNNING and ray.generation == action.slot.generation
        case _:
            return False


def blame(draft: Draft, node: NodeName, evidence: Evidence) -> None:
    """Count an attempt of a node as used, and fail the node on this evidence when it has no more."""
    if node in draft.failed_nodes:
        return
    draft.node_attempts[node] = draft.node_attempts.get(node, 0) + 1
    if draft.node_attempts[node] > draft.index.node_attempts(node):
        draft.fail_node(node, evidence)


def _verified(draft: Draft, key: str, answer: Answer) -> None:
    part = draft.index.parts.get(key)
    if part is None:
        return  # it went meanwhile
    if placed_right(draft, part, answer):
        draft.verified[key] = draft.generations(part)
        draft.retries.pop(f"verify:{key}", None)
        draft.retries.pop(misplaced_key(key), None)
    else:
        # Ray's table may lag behind a raylet that was replaced: ask again, a few times. An answer is no failure to
        # answer: those are counted from 0 again.
        draft.verified.pop(key, None)
        draft.back_off(misplaced_key(key))
        draft.retries[f"verify:{key}"] = replace(draft.retries[misplaced_key(key)], count=0)


def misplaced_key(key: str) -> str:
    """Return under which key the wrong answers about a slice are counted, apart from the calls that failed."""
    return f"misplaced:{key}"


def placed_right(draft: Draft, part: Slice, answer: Answer) -> bool:
    """Whether each bundle of a slice is on the present holder of its slot, inside the domain of the slice."""
    bundles = {bundle.index: bundle for bundle in answer.bundles}
    members = draft.of_slice(part)
    return len(bundles) == len(members) and all(
        (bundle := bundles.get(member.slice_rank)) is not None
        and bundle.slot == member.slot
        and bundle.generation == draft.slots[member.name].generation
        and (part.domain is None or bundle.domain == part.domain)
        for member in members
    )


def _sights(draft: Draft) -> None:
    for name, view in draft.seen.nodes.items():
        if isinstance(view, Unseen):
            draft.lasted(f"unseen:{name}")
            continue
        draft.since.pop(f"unseen:{name}", None)
        draft.stopped.pop(name, None)
        if view.agent is not None and name in draft.requested:
            draft.leased.add(name)
    if isinstance(draft.seen.head, Unseen):
        draft.lasted("headless")
    else:
        draft.since.pop("headless", None)
        draft.head_asked = draft.head_asked or draft.seen.head.head is not None


def _exits(draft: Draft) -> None:
    for member in draft.members:
        if member.name in draft.exits:
            continue
        gang = draft.gangs[draft.gang_of(member)]
        agent = draft.agent(draft.slots[member.name].node)
        if gang.broken or agent is None:
            continue
        for rank in agent.ranks:
            if rank.member == member.name and rank.attempt == gang.attempt and not rank.running:
                draft.exits[member.name] = Exit(attempt=rank.attempt, code=rank.exit_code, at=rank.at, tail=rank.tail)
