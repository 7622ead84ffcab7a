"""What finished actions, and a look at the nodes, change in the record."""

from collections.abc import Collection
from dataclasses import replace

from typing_extensions import assert_never

from launcher.core.control import fencing, reservation, slice_count
from launcher.core.control.conditions import rank_report
from launcher.core.control.drain import moved
from launcher.core.control.slots.spare_raylets import current
from launcher.core.control.state import Tick
from launcher.core.control.timing import ALLOT_WAIT_S, LONGEST_WAIT_S, TRIES
from launcher.core.model.action_key import key_of
from launcher.core.model.actions import (
    Acquire,
    Action,
    AddSpare,
    Announce,
    Grow,
    Join,
    Kill,
    Move,
    Park,
    PowerOff,
    PowerQuery,
    Prepare,
    Release,
    Relocate,
    Reserve,
    Resize,
    ReturnSpare,
    Signal,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Phase, Step, Unseen
from launcher.core.model.receipt import Answer, Receipt, Result
from launcher.core.model.record import POWERED_OFF, Evidence, Exit, Outcome, RunTimer
from launcher.core.model.run import Cause, GangName


def apply_receipts(tick: Tick) -> None:
    """Take in the receipts that are new.

    Reads `seen.receipts`, and what agents report: a failure that was overtaken means nothing. Writes `kills`, `retries`
    and, in the record, leases, verified slices, signals, powered-off nodes, failed attempts and nodes, the outcome.
    """
    for receipt in tick.seen.receipts:
        if receipt.seq > tick.record.receipts_seen:
            tick.record.receipts_seen = receipt.seq
            _apply(tick, receipt)


def _apply(tick: Tick, receipt: Receipt) -> None:
    action, answer = receipt.action, receipt.answer
    if answer.result in (Result.DONE, Result.KILLED, Result.POWERED_OFF):
        if not isinstance(action, Verify | AddSpare):  # the answer of these need not be what was needed
            tick.retries.pop(key_of(action), None)
        _succeeded(tick, action, answer)
    elif answer.result is Result.HELD and isinstance(action, Acquire):
        # The node belongs to somebody else, and nothing of the run has ever been there.
        tick.record.requested.discard(action.node)
        tick.fail_node(action.node, Evidence(cause=Cause.LEASE_HELD, message=f"held by {answer.message}"))
    elif _overtaken(tick, action):
        tick.retries.pop(key_of(action), None)
    else:
        _failed(tick, action, answer)


def _succeeded(tick: Tick, action: Action, answer: Answer) -> None:
    record = tick.record
    match action:
        case Acquire():
            record.leased.add(action.node)
        case Kill():
            tick.drop_kill(key_of(action))
        case Verify():
            reservation.apply_bundles(tick, action.slice, answer.bundles)
        case Unreserve():
            record.verified.pop(action.slice, None)
            record.stale.discard(action.slice)
        case Signal():
            record.signalled.add((action.node, action.gang))
        case Announce():
            record.noticed[action.slot.node] = action.slot.generation
        case PowerOff():
            record.stopped[action.node] = POWERED_OFF
        case PowerQuery():
            fencing.apply_power_query(tick, action.node)
        case Relocate():
            record.relocating.discard(action.slice)
        case Move():
            record.move = moved(record.move, action)
        case Resize(drop=None):
            record.resizing = False
        case Grow():
            slice_count.apply_growth(tick, claimed=True)
        case Release(unit=Unit.HEAD):
            record.former_heads = [node for node in record.former_heads if node != action.node]
        case StartHead():
            record.head_starts = tick.retry_after(record.head_starts)
        case AddSpare():  # if the node turns out to be of no use, the next one is not asked for at once
            tick.back_off(key_of(action), ALLOT_WAIT_S)
        case Prepare() | Join() | Park() | Reserve() | Start() | Release() | Resize() | ReturnSpare():
            pass  # their effect is observed
        case _:
            assert_never(action)


def _failed(tick: Tick, action: Action, answer: Answer) -> None:
    longest = ALLOT_WAIT_S if isinstance(action, AddSpare | Relocate) else LONGEST_WAIT_S
    retry = tick.back_off(key_of(action), longest)
    message = f"{answer.stage or action.kind}: {answer.message}"
    evidence = Evidence(cause=Cause.PROVISION, message=message, tail=answer.tail)
    if answer.unfit and _fail_unfit(tick, action, answer, evidence):
        return
    match action:
        case Acquire() | Prepare():
            if answer.lasting:
                tick.fail_node(action.node, evidence)
            elif tick.sees(action.node) and _charged(tick, action):  # one out of sight is judged by its silence
                tick.blame(action.node, evidence)
        case Join():
            if tick.sees(action.slot.node) and action.slot.node in tick.holders:
                tick.blame(action.slot.node, evidence)
        case StartHead() if tick.started:  # running ranks do not need a head
            tick.record.head_starts = tick.retry_after(tick.record.head_starts)
        case StartHead() | Reserve() | Unreserve() | Verify() | Start():
            if retry.count >= TRIES:
                tick.end(Outcome(cause=Cause.PROVISION, message=message, tail=answer.tail))
        case Relocate():
            tick.record.relocating.discard(action.slice)
            tick.notes.append(f"{action.slice} was not moved: {answer.message}")
        case Move():
            tick.retries.pop(key_of(action), None)
            tick.record.move = None  # its slices stay where they are; the receipt says why
        case Resize(drop=None):
            tick.record.resizing = False  # the run goes on as it is; the receipt says why
            slice_count.apply_growth(tick, claimed=False)
        case Kill():
            tick.retries[key_of(action)] = replace(retry, message=answer.message)
            fencing.apply_failed_kill(tick, action, answer, retry.count)
        case Grow():
            slice_count.apply_growth(tick, claimed=False)
        case AddSpare():
            tick.retries[key_of(action)] = replace(retry, message=answer.message or "no node is free")
        case Announce() | Park() | Signal() | Release() | PowerOff() | PowerQuery() | Resize() | ReturnSpare():
            pass  # tried again until it succeeds
        case _:
            assert_never(action)


def _charged(tick: Tick, action: Acquire | Prepare) -> bool:
    """Whether a failed try counts against a node: not where a spare is prepared that nobody needs yet."""
    return isinstance(action, Acquire) or action.node in tick.holders


def _fail_unfit(tick: Tick, action: Action, answer: Answer, evidence: Evidence) -> bool:
    """Fail the nodes that are to blame for a failure; return whether nothing else is to be done about it.

    The program is charged nothing, and the same is not tried there again.
    """
    unfit = replace(evidence, mends=True, unfit=True)
    match action:
        case Acquire() | Prepare() | Join():
            tick.fail_node(action.slot.node if isinstance(action, Join) else action.node, unfit)
        case Start() if any(node in tick.index.nodes for node in answer.unfit):
            for node in answer.unfit:
                if node in tick.index.nodes:
                    tick.fail_node(node, unfit)
        case StartHead() if tick.head_node is not None and not tick.started:
            tick.fail_node(tick.head_node, unfit)
        case _:
            return False
    tick.retries.pop(key_of(action), None)
    return True


def _overtaken(tick: Tick, action: Action) -> bool:
    """Whether a failure means nothing.

    The effect is there all the same, or is not needed any more.
    """
    match action:
        case Acquire():
            return tick.agent(action.node) is not None
        case Prepare():
            agent = tick.agent(action.node)
            return agent is not None and agent.setup.phase in (Phase.RUNNING, Phase.DONE)
        case Join():
            if action.slot.spare:
                if not current(tick, action.slot):
                    return True
            elif tick.record.slots.get(action.slot.member) != action.slot:
                return True
            ray = agent.ray if (agent := tick.agent(action.slot.node)) else Step()
            return ray.phase is Phase.RUNNING and ray.generation == action.slot.generation
        case _:
            return False


def apply_sightings(tick: Tick) -> None:
    """Note nodes out of sight, leases of the run, and ranks that have ended.

    Reads `seen.nodes` and `seen.head`. Writes `record.since.unseen` and the timer of the head, `record.leased`,
    `record.stopped` (forgotten for a node in sight), `record.head_requested`, `head_bound` and `exits`, and `gangs`
    whose attempt turns out to have succeeded out of sight (`record.ended`).
    """
    record = tick.record
    returned = {name for name in record.since.unseen if tick.sees(name)}
    for name in (*returned, *(name for name in record.stopped if tick.sees(name))):
        record.since.unseen.pop(name, None)
        record.stopped.pop(name, None)
    for name, view in tick.seen.nodes.items():
        if isinstance(view, Unseen):
            record.since.unseen.setdefault(name, tick.seen.at - view.silent)
        elif view.agent is not None and name not in record.leased and name in record.requested:
            record.leased.add(name)
    if isinstance(tick.seen.head, Unseen):
        tick.lasted(record.since.run, RunTimer.HEAD_UNSEEN)
    else:
        record.since.run.pop(RunTimer.HEAD_UNSEEN, None)
        record.head_requested = record.head_requested or tick.seen.head.head is not None
    if tick.head_node is not None and (agent := tick.agent(tick.head_node)) is not None:
        record.head_bound = agent.head_bound
    for gang in [name for name, gang in record.gangs.items() if gang.broken]:
        _note_late_exits(tick, gang, returned)
    _note_exits(tick)


def _note_exits(tick: Tick) -> None:
    exits = tick.record.exits
    for member in tick.index.members:
        rank = None if member.name in exits else rank_report(tick, member)
        if rank is None or rank.running or tick.gang_of(member).broken:
            continue
        own = rank.member == member.name
        ended = Exit(
            attempt=rank.attempt,
            code=rank.exit_code,
            at=tick.seen.at - (rank.ended_ago or 0.0),
            tail=rank.tail if own else (),
        )
        # A node out of sight may be why its driver failed: it is judged by its silence.
        if own or ended.ok or tick.agent(tick.node_of(member)) is not None:
            exits[member.name] = ended


def _note_late_exits(tick: Tick, name: GangName, returned: Collection[NodeName]) -> None:
    """Believe a node that comes back when it says that its rank had ended with 0.

    A gang whose attempt was given up for that node has succeeded then, and does not run again. Only the first look at
    the node counts, before anything was killed there; a rank on any other node was killed, whatever it says of it.
    """
    attempt, ended = tick.record.gangs[name].attempt, tick.record.ended
    for member in tick.index.by_gang[name]:
        known, node = ended.get(member.name), tick.node_of(tick.index.driver(member) or member)
        if (known is not None and known.attempt == attempt) or not tick.sees(node):
            continue
        rank = rank_report(tick, member) if node in returned else None
        if rank is None or rank.running:
            ended[member.name] = Exit(attempt=attempt, code=None, at=0.0)
        else:
            at = tick.seen.at - (rank.ended_ago or 0.0)
            ended[member.name] = Exit(attempt=attempt, code=rank.exit_code, at=at)
    found = {member.name: ended[member.name] for member in tick.index.by_gang[name] if member.name in ended}
    if len(found) == len(tick.index.by_gang[name]) and all(one.ok and one.attempt == attempt for one in found.values()):
        tick.record.exits.update(found)
        tick.resume_gang(name)
