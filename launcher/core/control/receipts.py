"""Facts that came back: receipts, exits and sights change the record before anything is decided."""

from dataclasses import replace

from typing_extensions import assert_never

from launcher.core.control.crowd import unswept
from launcher.core.control.operator import obey
from launcher.core.control.state import LONGEST_WAIT, TRIES, Draft
from launcher.core.model.actions import (
    Action,
    Answer,
    Claim,
    Enlist,
    Join,
    PowerOff,
    Prepare,
    Receipt,
    Relocate,
    Reserve,
    Resize,
    Result,
    Signal,
    Start,
    StartHead,
    Sweep,
    Unclaim,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.model.inventory import NodeName
from launcher.core.model.observation import Phase, Step, Unseen
from launcher.core.model.placement import Slice
from launcher.core.model.run import Cause, Evidence, Exit, Outcome

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
        if not isinstance(action, Verify | Enlist):  # what was answered is not yet what was needed
            draft.retries.pop(action.key, None)
        _succeeded(draft, action, answer)
    elif answer.result is Result.HELD and isinstance(action, Claim):
        # Nothing of ours has ever been there: the node is somebody else's, and no attempt is spent on it.
        draft.asked.discard(action.node)
        draft.condemn(action.node, Evidence(cause=Cause.LEASE_HELD, words=answer.words))
    else:
        _failed(draft, action, answer)


def _succeeded(draft: Draft, action: Action, answer: Answer) -> None:
    match action:
        case Claim():
            draft.claimed.add(action.node)
        case Sweep():
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
        case Unclaim(unit=Unit.HEAD):
            draft.heads = [node for node in draft.heads if node != action.node]
        case StartHead():
            draft.back_off(HEAD_TRIES)
        case Enlist():
            draft.back_off(action.key, SELDOM)  # should the node be of no use, the next is not asked for at once
        case Prepare() | Join() | Reserve() | Start() | Unclaim():
            pass  # their effect is seen by looking
        case _:
            assert_never(action)


def _failed(draft: Draft, action: Action, answer: Answer) -> None:
    if _overtaken(draft, action):
        draft.retries.pop(action.key, None)
        return
    count = draft.back_off(action.key, SELDOM if isinstance(action, Enlist | Relocate) else LONGEST_WAIT)
    words = f"{answer.stage or action.kind}: {answer.words}"
    match action:
        case Claim() | Prepare():
            evidence = Evidence(cause=Cause.PROVISION, words=words, tail=answer.tail)
            if answer.lasting:
                draft.condemn(action.node, evidence)
            elif draft.sees(action.node):  # of a node that has fallen silent its silence is judged
                blame(draft, action.node, evidence)
        case Join() if draft.sees(action.seat.node):
            blame(draft, action.seat.node, Evidence(cause=Cause.PROVISION, words=words, tail=answer.tail))
        case StartHead() if draft.started:
            draft.back_off(HEAD_TRIES)  # ranks that run need none
        case StartHead() | Reserve() | Unreserve() | Verify() | Start():
            if count >= TRIES:
                draft.end(Outcome(cause=Cause.PROVISION, words=words, tail=answer.tail))
        case Relocate():
            draft.moving.discard(action.slice)
        case Resize():
            draft.resizing = False  # it goes on as it is; the receipt says why
        case Sweep():
            unswept(draft, action, answer)
        case Join() | Signal() | Unclaim() | PowerOff() | Enlist():
            pass  # must be done however often it takes; the back-off spaces the tries
        case _:
            assert_never(action)


def _overtaken(draft: Draft, action: Action) -> bool:
    """Answer whether a failure is no news: what was asked for is there all the same, or is not asked for any more."""
    match action:
        case Claim():
            return draft.keeper(action.node) is not None
        case Prepare():
            keeper = draft.keeper(action.node)
            return keeper is not None and keeper.setup.phase in (Phase.RUNNING, Phase.DONE)
        case Join():
            if draft.seats.get(action.seat.member) != action.seat:
                return True
            ray = keeper.ray if (keeper := draft.keeper(action.seat.node)) else Step()
            return ray.phase is Phase.RUNNING and ray.generation == action.seat.generation
        case _:
            return False


def blame(draft: Draft, node: NodeName, evidence: Evidence) -> None:
    """Count an attempt of a node as used, and condemn the node on this evidence when it has no more."""
    if node in draft.condemned:
        return
    draft.attempts[node] = draft.attempts.get(node, 0) + 1
    if draft.attempts[node] > draft.index.attempts(node):
        draft.condemn(node, evidence)


def _verified(draft: Draft, key: str, answer: Answer) -> None:
    part = draft.index.parts.get(key)
    if part is None:
        return  # it went meanwhile
    if placed_right(draft, part, answer):
        draft.verified[key] = draft.generations(part)
        draft.retries.pop(f"verify:{key}", None)
        draft.retries.pop(astray(key), None)
    else:
        # Ray's table may lag behind a raylet that was replaced: ask again, a few times. An answer is no failure to
        # answer: those are counted from 0 again.
        draft.verified.pop(key, None)
        draft.back_off(astray(key))
        draft.retries[f"verify:{key}"] = replace(draft.retries[astray(key)], count=0)


def astray(key: str) -> str:
    """Answer under which key the wrong answers about a slice are counted, apart from the calls that failed."""
    return f"astray:{key}"


def placed_right(draft: Draft, part: Slice, answer: Answer) -> bool:
    """Answer whether each bundle of a slice is on the present holder of its seat, inside the domain of the slice."""
    bundles = {bundle.index: bundle for bundle in answer.bundles}
    members = draft.of_slice(part)
    return len(bundles) == len(members) and all(
        (bundle := bundles.get(member.slice_rank)) is not None
        and bundle.seat == member.seat
        and bundle.generation == draft.seats[member.name].generation
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
        if view.keeper is not None and name in draft.asked:
            draft.claimed.add(name)
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
        keeper = draft.keeper(draft.seats[member.name].node)
        if gang.broken or keeper is None:
            continue
        for rank in keeper.ranks:
            if rank.member == member.name and rank.epoch == gang.epoch and not rank.running:
                draft.exits[member.name] = Exit(epoch=rank.epoch, code=rank.exit_code, at=rank.at, tail=rank.tail)
