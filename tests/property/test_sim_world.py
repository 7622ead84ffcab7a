"""The imaginary fleet under the kernel, with random faults: one world, whoever looks, and acts that may be repeated."""

from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.run import Run
from launcher.drive.execute import Fixed, execute
from launcher.sim.nodes import SimNodes
from launcher.sim.world import Rank, Ray, RayGroup, Raylet, Setup, SimHost, SimWorld, Watch, dump, load_host, load_world
from tests.effort import drawn
from tests.property.worlds import Play, runs

TICKS = 120
FEW = drawn(15)

words = st.text(max_size=5)
times = st.floats(0.0, 1e6)
maybe = st.none() | times
counts = st.integers(0, 9)
raylets = st.builds(Raylet, slot=words, generation=counts, begun_at=times, ended_at=maybe)
ranks = st.builds(
    Rank,
    member=words,
    attempt=counts,
    restarts=counts,
    generation=counts,
    master=words,
    begun_at=times,
    ended_at=maybe,
    signalled=st.none() | counts,
    signalled_at=maybe,
)
hosts = st.builds(
    SimHost,
    run=st.none() | words,
    agent_at=maybe,
    setup=st.none() | st.builds(Setup, member=words, begun_at=times),
    raylets=st.lists(raylets, max_size=2).map(tuple),
    ranks=st.lists(ranks, max_size=2).map(tuple),
)
groups = st.builds(RayGroup, since=times, labels=st.lists(words, max_size=2).map(tuple))
rays = st.builds(Ray, since=times, begun_at=times, groups=st.dictionaries(words, groups, max_size=2))
watches = st.lists(st.builds(Watch, since=times, node=st.none() | words), max_size=2).map(tuple)
worlds = st.builds(SimWorld, began_at=maybe, ray=st.none() | rays, watches=watches)


@drawn(25)
@given(hosts, worlds)
def test_rows_are_read_back_as_they_were_written(host: SimHost, world: SimWorld) -> None:
    assert load_host(dump(host)) == host
    assert load_world(dump(world)) == world


@FEW
@given(runs())
def test_a_new_process_sees_what_the_controller_sees(run: Run) -> None:
    play = Play(run)
    for _ in range(TICKS):
        decision = play.tick()
        assert play.nodes.look(play.run) == SimNodes(play.rows).look(play.run)
        if decision.state.final:
            break
        play.clock.wait(decision.wake_at, lambda: False)


@FEW
@given(runs())
def test_looking_changes_nothing_and_every_act_may_be_repeated(run: Run) -> None:
    play = Play(run)
    for _ in range(TICKS):
        before = dict(play.rows.texts)
        play.observe()
        assert play.rows.texts == before
        decision = play.tick()
        once = dict(play.rows.texts)
        for action in decision.actions:
            execute(play.run, play.nodes, action, Fixed())
        assert play.rows.texts == once
        if decision.state.final:
            break
        play.clock.wait(decision.wake_at, lambda: False)


@FEW
@given(runs(max_faults=0))
def test_without_faults_every_run_succeeds_and_leaves_nothing(run: Run) -> None:
    play = Play(run)
    decision = play.drive(lambda decision: decision.state.final, ticks=1000)
    assert decision.state.value == "succeeded"
    assert all(load_host(play.rows.texts[f"hall/{node}"]) == SimHost() for node in play.run.placement.nodes)
    assert 60.0 < play.clock.now() < 120.0
