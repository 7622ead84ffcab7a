"""A run that gets more or fewer slices while it goes on, with faults and killed controllers at any moment of it."""

from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.run import Run, RunState
from launcher.core.model.run_index import index_of
from tests.effort import drawn
from tests.property.test_kernel import PASSING, Crash, crashes, paces, play, ranks_alive
from tests.property.worlds import Pace, Play, Wish, hall, runs

BOUNDED = drawn(10)

asked = st.lists(
    st.builds(
        Wish,
        tick=st.integers(0, 120),
        what=st.sampled_from(("resize", "resize", "resize", "drain", "undrain", "relocate")),
        at=st.integers(0, 11),
    ),
    min_size=1,
    max_size=4,
)


@BOUNDED
@given(run=runs(max_faults=3), script=crashes, wishes=asked, taking=paces)
def test_no_decision_breaks_a_rule_while_slices_come_and_go(
    run: Run, script: list[Crash], wishes: list[Wish], taking: list[Pace]
) -> None:
    here, _ = play(run, script, asked=wishes, taking=taking, ticks=500)
    assert here.record.slots.keys() == {member.name for member in index_of(here.decided).members}


@BOUNDED
@given(run=runs(max_faults=2, kinds=PASSING), script=crashes, tick=st.integers(0, 60), at=st.integers(0, 11))
def test_it_comes_to_an_end_whatever_fails_meanwhile(run: Run, script: list[Crash], tick: int, at: int) -> None:
    here, decision = play(run, script, asked=[Wish(tick=tick, what="resize", at=at)])
    assert decision.state.final or decision.state is RunState.ON_HOLD, decision.status_message
    if decision.state is RunState.SUCCEEDED:
        assert all(here.record.exits[member.name].ok for member in index_of(here.decided).members)


@BOUNDED
@given(run=runs(max_faults=0), tick=st.integers(0, 80), at=st.integers(0, 11))
def test_without_faults_one_more_attempt_is_all_that_it_costs(run: Run, tick: int, at: int) -> None:
    here = Play(run, whole=hall(run))
    before = here.drive(lambda decision: decision.state.final, ticks=tick)
    if before.state.final or any(gang.attempt != 1 for gang in before.record.gangs.values()):
        return
    here.resize(at)
    asked_for = here.run.target
    last = here.drive(lambda decision: decision.state.final)
    assert last.state is RunState.SUCCEEDED, last.status_message
    if asked_for is None or here.run.target is not None:
        return
    members = {member.name for member in index_of(here.run).members}
    assert {name for name, ended in last.record.exits.items() if ended.ok} == members
    assert {group.topology.slices for group in here.run.task.groups} == {
        group.topology.slices for group in asked_for.task.groups
    }
    # A gang that was over by then does not begin again.
    assert all(gang.attempt <= 2 for gang in last.record.gangs.values())
    assert not any(ranks_alive(here, name) for name in last.record.gangs)
