"""What a run says of itself, as people read it."""

from dataclasses import replace

from launcher.core.model.observation import HeadSeen, Phase, Step, Unseen
from launcher.core.model.readiness import ReadinessProbe
from launcher.core.model.run import MemberName, RunState
from tests.situations import Situation, make_run, name
from tests.unit.core.control.kernel import driven, serving


def test_nothing_is_touched_when_no_node_can_be_seen() -> None:
    here = serving()
    here.views = dict.fromkeys(here.views, Unseen(message="timed out"))
    here.head = Unseen(message="timed out")
    for _ in range(100):
        assert here.decide(after=1.0).actions == ()
    decision = here.decide()
    assert decision.state is RunState.ON_HOLD
    assert "no node of the run is reachable" in decision.status_message


def test_raylets_that_wait_for_their_head_are_said_to_wait() -> None:
    here = Situation(make_run())
    here.ready()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    here.head = HeadSeen(head=replace(here.head.head, ready=False, nodes=()))
    here.agent(name(1, 1), ray=Step())
    assert here.decide().status_message == "4 nodes waiting for the Ray head"


def test_what_a_setup_is_about_is_told_while_it_runs_and_when_it_fails() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    making = Step(phase=Phase.RUNNING, message="making a Python environment")
    here.agent(name(1, 1), setup=making)
    here.agent(name(1, 2), setup=Step(phase=Phase.RUNNING))
    assert here.decide().status_message == "1 node making a Python environment, 1 in setup"
    here.agent(name(1, 2), setup=Step(message="copying files"))
    assert here.decide().status_message == "1 node copying files, 1 making a Python environment"
    here.agent(name(1, 1), setup=replace(making, phase=Phase.FAILED, exit_code=78))
    here.decide()
    assert (
        here.record.failed_nodes[name(1, 1)].message == "making a Python environment: exited with 78; replaced by r1-n3"
    )


def test_of_copies_the_slowest_is_told_in_few_steps() -> None:
    here = Situation(make_run(slices=1))
    here.leased()
    parts = [Step(phase=Phase.RUNNING, message="copying files", copied=done, to_copy=4_000_000_000) for done in (0, 0)]
    here.agent(name(1, 1), setup=replace(parts[0], copied=3_000_000_000))
    here.agent(name(1, 2), setup=replace(parts[1], copied=1_111_000_000))
    assert here.decide().status_message == "2 nodes copying files (slowest: 1.0 GB of 4.0 GB)"
    here.agent(name(1, 2), setup=replace(parts[1], copied=1_199_000_000))
    assert here.decide().status_message == "2 nodes copying files (slowest: 1.0 GB of 4.0 GB)"


def test_one_node_and_one_rank_are_told_in_the_singular() -> None:
    here = Situation(make_run(slices=1, nodes=1))
    assert here.decide().status_message.startswith("1 node ")
    here.serving()
    assert here.decide().status_message == "1 of 1 rank running"


def test_whether_a_server_is_ready_is_told_of_rank_0_alone() -> None:
    run = make_run(slices=1)
    asked = tuple(replace(group, readiness=ReadinessProbe(path="/", port=80)) for group in run.task.groups)
    here = Situation(replace(run, task=replace(run.task, groups=asked)))
    here.serving()
    node = here.record.slots[MemberName("main/0")].node

    def told(*, ready: bool, unready: float = 0.0) -> str:
        here.agent(
            node, ranks=tuple(replace(one, ready=ready, unready=unready) for one in here.views[node].agent.ranks)
        )  # type: ignore[union-attr]
        decision = here.decide()
        assert decision.ready == {"main/0": ready}
        return decision.status_message

    assert told(ready=False) == "2 of 2 ranks running; main/0 not ready yet"
    assert told(ready=True) == "2 of 2 ranks running"
    assert told(ready=False, unready=30.0) == "2 of 2 ranks running; main/0 no longer ready"


def test_a_driver_that_waits_for_what_ray_cannot_place_is_told_in_steps() -> None:
    here = driven()
    here.serving()
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    well = here.head
    assert well.head is not None
    here.head = HeadSeen(head=replace(here.head.head, pending=("2 x {GPU: 5}",)))
    assert "Ray cannot place" not in here.decide().status_message
    said = "the driver runs, no GPU is in use, and Ray cannot place for 2m: 2 x {GPU: 5}"
    for seconds in (120.0, 200.0):
        assert said in here.decide(after=seconds).status_message
    assert "for 10m: 2 x {GPU: 5}" in here.decide(after=300.0).status_message
    here.head = well
    assert "Ray cannot place" not in here.decide().status_message
    here.head = HeadSeen(head=replace(well.head, pending=("2 x {GPU: 5}",)))
    assert "Ray cannot place" not in here.decide().status_message, "it begins anew"
