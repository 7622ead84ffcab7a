"""Runs in the situations that several tests of the kernel begin with."""

from dataclasses import replace

from launcher.core.control.reconcile import Decision
from launcher.core.model.actions import Kill
from launcher.core.model.inventory import Access
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadSeen, Phase, Reached, Step, Unseen
from launcher.core.model.receipt import Result
from launcher.core.model.run import MemberName, Run
from launcher.core.model.task import RecoveryPolicy
from tests.situations import PATIENT, Situation, make_run, name

LOST = name(1, 2)
DRIVER = MemberName("main/0")
OTHERS = tuple(MemberName(f"main/{rank}") for rank in (1, 2, 3))


def outside(run: Run) -> Run:
    """The run with its head on a machine of its own."""
    return replace(run, fleet=replace(run.fleet, head=Access(address="10.9.9.9")))


def serving(run: Run | None = None) -> Situation:
    here = Situation(outside(run or make_run(slices=2, nodes=2, spares=1)))
    here.serving()
    return here


def wait(here: Situation, seconds: float) -> Decision:
    """Tick each second; what is decided last."""
    decision = here.decide(after=1.0)
    for _ in range(int(seconds) - 1):
        decision = here.decide(after=1.0)
    return decision


def holder(here: Situation, rank: int = 1) -> NodeName:
    """The node that has the slot of a rank now."""
    return here.record.slots[MemberName(f"main/{rank}")].node


def votes(*silent: float | None) -> Situation:
    """A run with its head on r1-n1, which nobody sees; each of the others has missed it for so long."""
    here = Situation(make_run(slices=1, nodes=len(silent) + 1, spares=0))
    here.serving()
    here.head = here.views[name(1, 1)] = Unseen(message="timed out")
    here.reached[name(1, 1)] = Reached(by=name(1, 2), answers=False)
    for at, seconds in enumerate(silent, start=2):
        here.agent(name(1, at), head_silent=seconds)
    return here


def lose_raylet(here: Situation) -> Kill:
    """The raylet of main/1 ends; answer the fence that is decided, with the ranks' own fences received."""
    slot = here.record.slots[MemberName("main/1")]
    here.agent(slot.node, ray=Step(phase=Phase.FAILED, exit_code=1, generation=slot.generation))
    actions = here.decide().actions
    fence = next(a for a in actions if isinstance(a, Kill) and a.level.value == "generation")
    for action in actions:
        if isinstance(action, Kill) and action is not fence:
            here.receive(action, Result.KILLED)
            here.agent(action.node, ranks=())
    return fence


def unstarting_head(here: Situation, times: int) -> Decision:
    """The head ends, and so often cannot be started again; what is decided a while after that."""
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.head = HeadSeen(head=replace(here.head.head, ready=False, ray=Step(phase=Phase.FAILED, exit_code=1)))
    for _ in range(times):
        for action in here.decide(after=40.0).actions:
            here.receive(action, Result.FAILED, message="no space left on device")
    return here.decide(after=0.1)


def serving_slice(
    *, slices: int = 1, nodes: int = 8, spares: int = 2, policy: RecoveryPolicy | None = None
) -> Situation:
    here = Situation(outside(make_run(slices=slices, nodes=nodes, spares=spares, recovery=policy or PATIENT)))
    here.serving()
    return here


def driven(*, reserve: bool = False, restarts: int = 3, spares: int = 0) -> Situation:
    recovery = RecoveryPolicy(max_restarts=restarts)
    return Situation(make_run(driver="python a.py", reserve=reserve, recovery=recovery, spares=spares))
