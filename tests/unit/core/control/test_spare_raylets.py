"""Raylets of spares: when they start, what is done about those that end, and how a slot goes on with one."""

from dataclasses import replace

from launcher.core.control.reconcile import Decision
from launcher.core.model.actions import Join, Kill, Level, Park, Reserve
from launcher.core.model.observation import GroupReport, GroupState, Head, HeadSeen, Phase, RayNode, Step
from launcher.core.model.receipt import Bundle, Result
from launcher.core.model.run import GangName, MemberName, spare_label
from launcher.core.model.task import RecoveryPolicy, RestartWith
from tests.situations import DONE, UP, Situation, key, kinds, make_run, name
from tests.unit.core.control.kernel import LOST, holder, serving, wait

SPARE = name(1, 3)


def head(here: Situation) -> Head:
    assert isinstance(here.head, HeadSeen)
    assert here.head.head is not None
    return here.head.head


def parked() -> Situation:
    """One slice on two nodes, with a spare that is up."""
    here = serving(make_run(slices=1))
    here.park_spares()
    return here


def end_raylet(here: Situation) -> None:
    """The raylet of the spare ends, and Ray notices."""
    generation = here.record.spares[SPARE]
    here.agent(SPARE, ray=Step(phase=Phase.FAILED, exit_code=1, generation=generation))
    nodes = tuple(replace(one, alive=one.alive and one.slot != spare_label(generation)) for one in head(here).nodes)
    here.head = HeadSeen(head=replace(head(here), nodes=nodes))


def lose(here: Situation) -> Decision:
    """A node with a slot is lost; its kills are answered."""
    here.silent(LOST, heard=18.0)
    decision = wait(here, 9)
    for _ in range(3):
        for action in decision.actions:
            if isinstance(action, Kill):
                here.receive(action, Result.KILLED)
        for node in (name(1, 1), SPARE):
            here.agent(node, ranks=())
        if "unreserve:main.s0" in kinds(decision):
            return decision
        decision = here.decide()
    return decision


def test_a_spare_is_made_ready_step_by_step_once_every_rank_runs_and_not_before() -> None:
    here = Situation(make_run(slices=1))
    here.ready()
    here.agent(SPARE)
    starting = here.decide()
    assert not [action for action in starting.actions if SPARE in key(action)]
    here.verify(starting.actions)
    assert not [action for action in here.decide().actions if SPARE in key(action)]
    here.run_ranks(1)
    assert kinds(here.decide()) == ["prepare:r1-n3"]
    here.agent(SPARE, setup=Step(phase=Phase.RUNNING))
    assert kinds(here.decide()) == []
    here.agent(SPARE, setup=DONE)
    (join,) = here.decide().actions
    assert isinstance(join, Join)
    assert (join.slot.node, join.slot.generation, join.slot.spare) == (SPARE, 1, True)
    here.agent(SPARE, ray=replace(UP, generation=1))
    assert kinds(here.decide()) == []
    raylet = RayNode(slot="spare.1", generation=1, domain="r1", alive=True)
    here.head = HeadSeen(head=replace(head(here), nodes=(*head(here).nodes, raylet)))
    (park,) = here.decide().actions
    assert isinstance(park, Park)
    here.head = HeadSeen(
        head=replace(head(here), groups=(*head(here).groups, GroupReport(slice="spare.1", state=GroupState.CREATED)))
    )
    assert kinds(here.decide()) == []


def test_the_raylet_of_a_spare_that_ends_is_started_again_more_and_more_rarely_and_nobody_is_charged() -> None:
    here = parked()
    starts: list[float] = []
    labels: set[int] = set()
    for _ in range(100):
        end_raylet(here)
        for action in here.decide(after=1.0).actions:
            assert action.kind in ("join", "unreserve")
            if isinstance(action, Join):
                starts.append(here.at)
                labels.add(action.slot.generation)
    assert len(labels) == len(starts) <= 8, "a label is used once"
    assert starts[-1] - starts[-2] > starts[1] - starts[0]
    assert not here.record.node_attempts
    assert not here.record.failed_nodes
    assert here.gang().attempt == 1


def test_a_failed_start_of_a_spare_charges_nobody() -> None:
    here = serving(make_run(slices=1))
    here.agent(SPARE, setup=DONE)
    for _ in range(5):
        for action in here.decide(after=40.0).actions:
            here.receive(action, Result.FAILED, message="timed out")
    assert not here.record.node_attempts
    assert not here.record.failed_nodes


def test_a_slot_takes_over_the_raylet_and_starts_once_ray_has_its_bundle_there() -> None:
    here = parked()
    decision = lose(here)
    assert here.record.slots[MemberName("main/1")].spare
    assert {"unreserve:main.s0", "unreserve:spare.1"} <= set(kinds(decision))
    for action in decision.actions:
        here.receive(action, Result.KILLED if isinstance(action, Kill) else Result.DONE)
    here.head = HeadSeen(head=replace(head(here), groups=()))
    reserve = next(action for action in here.decide().actions if isinstance(action, Reserve))
    assert reserve.labels == ("main-0", "spare.1")
    here.receive(reserve)
    bundles = (
        Bundle(index=0, slot="main-0", domain="r1", generation=0),
        Bundle(index=1, slot="spare.1", domain="r1", generation=1),
    )
    group = GroupReport(slice="main.s0", state=GroupState.CREATED, bundles=bundles)
    here.head = HeadSeen(head=replace(head(here), groups=(group,)))
    (verify,) = here.decide().actions
    assert key(verify) == "verify:main.s0"
    here.receive(verify, bundles=bundles)
    assert kinds(here.decide()) == ["start:run@2"], "no setup and no raylet had to be waited for"


def test_a_group_on_the_raylet_of_the_slot_before_is_removed_and_never_started_in() -> None:
    here = parked()
    lose(here)
    before = tuple(Bundle(index=at, slot=f"main-{at}", domain="r1", generation=0) for at in range(2))
    here.head = HeadSeen(
        head=replace(head(here), groups=(GroupReport(slice="main.s0", state=GroupState.CREATED, bundles=before),))
    )
    here.record.stale.clear()  # as if the group had been made by a request that came late
    decision = here.decide()
    assert "unreserve:main.s0" in kinds(decision)
    assert not [action for action in decision.actions if action.kind in ("verify", "start")]


def test_a_spare_that_is_not_up_takes_a_slot_in_the_cold_way() -> None:
    here = parked()
    end_raylet(here)
    lose(here)
    slot = here.record.slots[MemberName("main/1")]
    assert (slot.node, slot.spare) == (SPARE, False)
    assert slot.generation > 1


def test_of_two_spares_the_one_that_is_up_is_taken() -> None:
    here = serving(make_run(slices=1, spares=2))
    here.park_spares()
    first, second = name(1, 3), name(1, 4)
    here.agent(first, ray=Step(phase=Phase.FAILED, exit_code=1, generation=here.record.spares[first]))
    here.silent(LOST, heard=18.0)
    wait(here, 9)
    assert holder(here) == second


def test_a_raylet_of_another_cluster_is_killed_before_the_spare_gets_a_new_one() -> None:
    here = parked()
    generation = here.record.spares.pop(SPARE)
    decision = here.decide()
    (kill,) = [action for action in decision.actions if isinstance(action, Kill)]
    assert (kill.node, kill.level, kill.generation) == (SPARE, Level.GENERATION, generation)
    assert not here.record.kills, "no gang waits for it"
    assert f"unreserve:{spare_label(generation)}" in kinds(decision)


def test_a_spare_that_leaves_takes_its_hold_in_ray_with_it() -> None:
    here = parked()
    here.drained[SPARE] = "maintenance"
    here.decide()
    decision = here.decide()
    assert SPARE not in here.record.spares
    assert {"release:slot:r1-n3", "unreserve:spare.1"} <= set(kinds(decision))


def test_where_ranks_restart_one_by_one_a_spare_is_prepared_only_and_no_group_is_removed_under_a_neighbour() -> None:
    policy = RecoveryPolicy(node_attempts=0, restart_with=RestartWith.MEMBER)
    here = serving(make_run(slices=1, recovery=policy))
    here.agent(SPARE, setup=DONE)
    assert here.decide().actions == ()
    here.record.spares[SPARE] = 1  # one that is up all the same is not taken over
    here.agent(SPARE, ray=replace(UP, generation=1))
    end = Step(phase=Phase.FAILED, exit_code=1)
    here.agent(LOST, ray=end)
    for _ in range(5):
        assert not [action for action in here.decide().actions if action.kind == "unreserve" and "main" in key(action)]
    assert (holder(here), here.record.slots[MemberName("main/1")].spare) == (SPARE, False)
    assert here.record.gangs[GangName("main/0")].broken is None
