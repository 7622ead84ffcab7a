"""Starting the Ray head: first, again after it ended, and on a new machine."""

from launcher.core.control.head_failover import begin_cluster, elsewhere
from launcher.core.control.startup import BEGIN
from launcher.core.control.state import Tick
from launcher.core.control.timing import EXPIRED_S, HEAD_STARTS, PATIENCE_S
from launcher.core.model.actions import Reason, Release, StartHead, Unit, Why
from launcher.core.model.observation import Head, HeadSeen, Phase, Step, Unseen
from launcher.core.model.record import Evidence, Outcome, RunTimer
from launcher.core.model.run import Cause
from launcher.core.model.text import span

_HEAD = Reason(why=Why.START, message="Ray head exited")


def start_head(tick: Tick) -> None:
    """Start the Ray head where it does not run.

    Heads of earlier clusters that we see are released first.

    Reads `seen.head`, `head_moved`, `started`. Writes `record.head`, `head_requested`, `head_starts`, the outcome;
    `actions`, `hold_reason`; for a head that keeps ending all that `begin_cluster` changes.
    """
    if tick.head_moved:
        return  # what was seen is on the machine before
    former = tick.record.former_heads
    if tick.head_node in former:
        reason = Reason(why=Why.HEAD, message="Ray cluster restarts")
        tick.do(Release(reason=reason, node=tick.head_node, unit=Unit.HEAD))
    elif any(tick.sees(machine) for machine in former if machine is not None):
        return
    elif isinstance(tick.seen.head, Unseen):
        _wait_for_head(tick, tick.seen.head)
    else:
        _start(tick, tick.seen.head)


def _start(tick: Tick, view: HeadSeen) -> None:
    head, record = view.head, tick.record
    starts = record.head_starts.count if record.head_starts else 0
    if head is not None and head.fault and head.ray.phase is Phase.FAILED and _fail_machine(tick, head):
        return
    if head is None and view.leftovers:
        tick.do(Release(reason=BEGIN, node=tick.head_node, unit=Unit.HEAD))
    elif tick.head():
        record.head_starts = None
    elif head is not None and head.ray.phase not in (Phase.ABSENT, Phase.FAILED):
        return
    elif starts >= HEAD_STARTS and (tick.started or head is not None):
        _keeps_ending(tick, head.ray if head is not None else Step(), starts)
    else:
        record.head_requested, record.head = True, tick.head_node
        tick.do(StartHead(reason=_HEAD if tick.started else BEGIN, cluster=record.cluster))


def _fail_machine(tick: Tick, head: Head) -> bool:
    """Fail the node of a head whose Ray ended by a fault of the node; return whether that was done.

    The head leaves it in the next tick, and so does the slot that it holds. Ranks that run need no head: they go on.
    """
    if tick.head_node is None or not _idle(tick):
        return False
    message = f"Ray head exited with {head.ray.exit_code}: {head.fault}"
    evidence = Evidence(cause=Cause.PROVISION, message=message, tail=head.ray.tail, mends=True, unfit=True)
    tick.fail_node(tick.head_node, evidence)
    tick.wake(tick.seen.at)
    return True


def _keeps_ending(tick: Tick, ray: Step, starts: int) -> None:
    """Fail a launch whose head does not stay up.

    Running ranks need no head: it is started again, less often, and on another node once nothing runs any more.
    """
    how = f"exited with {ray.exit_code}" if ray.phase is Phase.FAILED else "did not start"
    if not tick.started:
        message = f"head: Ray head {how}, {starts} times in a row"
        tick.end(Outcome(cause=Cause.PROVISION, message=message, tail=ray.tail))
        return
    message = f"Ray head {how}, repeatedly"
    idle = _idle(tick)
    if idle and (new := elsewhere(tick)):
        begin_cluster(tick, new, message)
        return
    again = tick.record.head_starts.at if tick.record.head_starts else tick.seen.at
    tick.wake(again)
    tick.hold(f"{message}: {'no rank is running' if idle else 'ranks keep running'}")
    if tick.seen.at >= again:
        tick.do(StartHead(reason=_HEAD, cluster=tick.record.cluster))


def _idle(tick: Tick) -> bool:
    """Whether no rank runs that would have to end if the head moved."""
    return all(not gang.attempt or gang.broken or tick.over(name) for name, gang in tick.record.gangs.items())


def _wait_for_head(tick: Tick, view: Unseen) -> None:
    """Wait for the machine of a new head; after `PATIENCE_S` the launch fails."""
    away = tick.lasted(tick.record.since.run, RunTimer.HEAD_UNSEEN)
    if tick.record.head_requested or tick.blind():
        return
    if away >= PATIENCE_S:
        message = f"connect: head unreachable for {PATIENCE_S:.0f} s: {view.message}"
        tick.end(Outcome(cause=Cause.PROVISION, message=message))
    elif away >= EXPIRED_S:
        lately = f"{away // 10 * 10:.0f} s"
        tick.hold(f"head unreachable for {lately}: {view.message}; fails after {span(PATIENCE_S)}")
