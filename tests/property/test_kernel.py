"""The kernel over imaginary fleets with random faults, its controller killed between any two steps.

Each tick of each play is held to the same rules; the truth about what really runs is asked of the fleet itself,
also on nodes that cannot be seen.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.control.conditions import Condition
from launcher.core.control.reconcile import Decision, reconcile
from launcher.core.control.timing import RELEASE_PENDING_S, STEADY_S
from launcher.core.model.actions import (
    Acquire,
    Join,
    Kill,
    Level,
    PowerOff,
    Prepare,
    Release,
    Relocate,
    Signal,
    Start,
    Unreserve,
)
from launcher.core.model.inventory import Access, Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Observation, Seen, Unseen
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.record import Record
from launcher.core.model.run import Cause, GangName, MemberName, Run, RunState, Wanted, is_spare
from launcher.core.model.run_index import index_of
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, OnNoSpare, RecoveryPolicy, RestartWith
from tests.effort import SOAK, drawn
from tests.property.worlds import AT_ONCE, Pace, Play, Wish, hall, runs, wishes
from tests.situations import key, make_run

BOUNDED = drawn(12)
UP = (Condition.SERVING, Condition.FINISHED)
SILENT = (
    FaultKind.POWER_CUT,
    FaultKind.LINK_DOWN,
    FaultKind.SSH_DOWN,
    FaultKind.BASTION_DOWN,
    FaultKind.RAYLET_STOPPED,
    FaultKind.RANK_HANGS,
)
CUT = (
    FaultKind.POWER_CUT,
    FaultKind.LINK_DOWN,
    FaultKind.LINK_DOWN,
    FaultKind.SSH_DOWN,
    FaultKind.BASTION_DOWN,
    FaultKind.HEAD_KILLED,
)
PASSING = tuple(kind for kind in FaultKind if kind not in SILENT)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """The controller is killed in the tick of that number, after so many of its actions; the last one's receipt may
    be lost with it."""

    tick: int
    until: int
    lose: bool


crashes = st.lists(st.builds(Crash, tick=st.integers(0, 60), until=st.integers(0, 6), lose=st.booleans()), max_size=5)


paces = st.lists(
    st.builds(Pace, effect=st.integers(0, 12), receipt=st.integers(0, 12), timed_out=st.booleans()),
    min_size=1,
    max_size=12,
)


def play(
    run: Run,
    script: list[Crash],
    *,
    ticks: int = 1500,
    down_at: int | None = None,
    taking: Sequence[Pace] = (AT_ONCE,),
    asked: Sequence[Wish] = (),
    whole: Inventory | None = None,
) -> tuple[Play, Decision]:
    """Drive a run until it is over or nothing more happens, holding each tick to the rules."""
    here, plan = Play(run, taking, whole or hall(run)), {crash.tick: crash for crash in script}
    decision = None
    for at in range(ticks):
        if at == down_at:
            here.take_down()
        for wish in asked:
            if wish.tick == at:
                here.wish(wish)
        before, seen = here.record, here.observe()
        crash = plan.get(at)
        decision = here.tick(seen=seen, until=crash.until, lose=crash.lose) if crash else here.tick(seen=seen)
        hold_to_rules(here, before, seen, decision)
        if crash:
            here.crash()
            continue  # a controller that was started again decides at once
        if decision.state.final:
            break
        here.clock.wait(decision.wake_at, lambda: False)
    assert decision is not None
    return here, decision


def hold_to_rules(here: Play, before: Record, seen: Observation, decision: Decision) -> None:
    """What must be true of every decision, whatever happened before."""
    run, record = here.decided, decision.record
    slots_stay_in_their_slices(here, record)
    slices_stay_in_their_range(here, decision)
    counters_only_rise(run, before, record)
    budgets_are_kept(run, record)
    who_loses_its_raylet_ends_its_attempt(run, before, record)
    nothing_healthy_is_touched(run, before, seen, decision)
    only_the_allowed_leaves_its_rack(run, seen, before, decision)
    nothing_starts_unfenced(here, decision)
    one_attempt_runs_at_a_time(here)
    power_is_cut_only_of_the_dead(here, decision)
    the_next_look_is_never_forgotten(seen, decision)
    # It decides everything once more: always where something is done, else now and then.
    if SOAK or decision.actions or here.ticks % 8 == 0:
        the_order_of_nodes_does_not_matter(run, before, seen, decision)


def slots_stay_in_their_slices(here: Play, record: Record) -> None:
    members = index_of(here.decided).members
    holders = [record.slots[member.name].node for member in members if member.colocated_with is None]
    assert len(holders) == len(set(holders)), "one node holds two slots"
    for member in members:
        slot = record.slots[member.name]
        if member.colocated_with is not None:
            host = record.slots[member.colocated_with]
            assert (slot.node, slot.generation) == (host.node, host.generation), "a guest is not where its host is"
        else:
            assert slot.node in here.allotter.given[member.slice_key], "a slot left its slice"


def slices_stay_in_their_range(here: Play, decision: Decision) -> None:
    """A group has every slice from 0 on, as many as its task says, and never fewer than it may; ranks have no gap."""
    for group in here.run.task.groups:
        rule = group.topology
        indices = [part.index for part in here.run.placement.slices if part.group == group.name]
        assert indices == list(range(rule.slices)), f"{group.name} has the slices {indices}"
        assert (rule.min_slices or 1) <= rule.slices <= (rule.max_slices or rule.slices)
    for action in decision.actions:
        if isinstance(action, Start):
            members = [member.name for member in index_of(here.decided).members]
            assert [slot.member for slot in action.slots] == members, "ranks start with another number than the run has"


def only_the_allowed_leaves_its_rack(run: Run, seen: Observation, before: Record, decision: Decision) -> None:
    """A slice goes to another rack because its task says so, or an operator does."""
    ordered = {order.subject for order in seen.requests if order.kind is RequestKind.RELOCATE} | before.relocating
    members = index_of(run).by_name
    ordered |= {
        members[member.colocated_with].slice_key
        for member in members.values()
        if member.colocated_with and member.slice_key in ordered
    }
    for action in decision.actions:
        if isinstance(action, Relocate):
            part = next(part for part in run.placement.slices if part.key == action.slice)
            policy = run.group(part.group).recovery.on_no_spare
            assert policy is OnNoSpare.RELOCATE or action.slice in ordered, f"{key(action)} was never allowed"


def one_attempt_runs_at_a_time(here: Play) -> None:
    """The truth: no two attempts of a gang run at once, on whatever side of a cut; that would be two brains."""
    for name in here.record.gangs:
        attempts = {attempt for _, attempt in ranks_alive(here, name)}
        assert len(attempts) <= 1, f"attempts {sorted(attempts)} of {name} run at once"


def power_is_cut_only_of_the_dead(here: Play, decision: Decision) -> None:
    fleet, clock = here.nodes._open(here.run)
    for action in decision.actions:
        if isinstance(action, PowerOff):
            assert not fleet.life(action.node).answers(clock.now()), f"{key(action)} although its host answers others"


def counters_only_rise(run: Run, before: Record, record: Record) -> None:
    for name, gang in record.gangs.items():
        was = before.gangs.get(name)
        assert gang.attempt - (was.attempt if was else 0) in (0, 1)
        assert gang.restarts >= (was.restarts if was else 0)
    for member, slot in record.slots.items():
        was_on = before.slots.get(member)
        if was_on is not None and slot.node == was_on.node:
            assert slot.generation >= was_on.generation
    assert record.newest_generation >= before.newest_generation


def who_loses_its_raylet_ends_its_attempt(run: Run, before: Record, record: Record) -> None:
    """A rank that has not finished goes with its raylet, and none begins a second time in one attempt."""
    for member in index_of(run).members:
        was, gang = before.slots.get(member.name), record.gangs[run.gang(member)]
        if was is not None and was != record.slots[member.name]:
            assert gang.attempt == 0 or gang.broken or member.name in record.exits, (
                f"{member.name} goes on without a raylet"
            )


def budgets_are_kept(run: Run, record: Record) -> None:
    restarts = max(group.recovery.max_restarts for group in run.task.groups)
    attempts = max(group.recovery.node_attempts for group in run.task.groups)
    assert all(gang.restarts <= restarts for gang in record.gangs.values()), "a restart beyond the budget"
    assert all(count <= attempts + 1 for count in record.node_attempts.values()), "a node was tried too often"


def nothing_healthy_is_touched(run: Run, before: Record, seen: Observation, decision: Decision) -> None:
    """While a run goes on, a node whose rank runs, or that cannot be seen, is left alone."""
    if decision.record.outcome is not None:
        return
    broken = {name for name, gang in decision.record.gangs.items() if gang.broken}
    serving = {
        (decision.record.slots[member.name].node, member.name)
        for member in index_of(run).members
        if decision.conditions[member.name] is Condition.SERVING and run.gang(member) not in broken
    }
    for action in decision.actions:
        node = _node_of(action)
        told = isinstance(action, Signal) and bool(decision.record.since.draining)
        only = action.member if isinstance(action, Kill) and action.level is Level.RANK else None
        harmed = [member for at, member in serving if at == node and only in (None, member)]
        assert not harmed or told, f"{key(action)} on a node whose rank runs"
        if isinstance(action, Signal) and action.gang is None:
            told_too = {run.gang(member) for member in index_of(run).members if (node, member.name) in serving}
            assert all(name in decision.record.since.draining for name in told_too), f"{key(action)}: too many"
        blind = isinstance(seen.nodes.get(node) if node else None, Unseen)
        assert not blind, f"{key(action)} on a node that cannot be seen"
    if decision.state is RunState.RUNNING and all(at in UP for at in decision.conditions.values()):
        orphaned = {node for node, view in seen.nodes.items() if isinstance(view, Seen) and view.leftovers}
        placed = {name for part in run.placement.slices for name in (*part.nodes, *part.spares)}
        others = {*decision.record.failed_nodes, *orphaned, *seen.drained, *(seen.nodes.keys() - placed)}
        others |= placed - {slot.node for slot in decision.record.slots.values()}  # spares are made ready meanwhile
        allowed = (
            "verify",
            "acquire",
            "reserve",
            "start_head",
            "add_spare",
            "return_spare",
            "relocate",
            "grow",
            "announce",
            "park",
        )
        restless = [a for a in decision.actions if _node_of(a) not in others and a.kind not in allowed]
        old = [a for a in restless if isinstance(a, Release) and a.node in decision.record.former_heads]
        # A head without a slot is fenced when its machine falls silent; no rank notices.
        meant = [
            a
            for a in restless
            if isinstance(a, Signal)
            or (isinstance(a, PowerOff) and a.node == run.head_at)
            or (isinstance(a, Unreserve) and is_spare(a.slice))
            or (a.kind == "resize" and decision.record.resizing)
        ]
        loud = [str(key(a)) for a in restless if a not in old and a not in meant]
        assert not loud, f"a steady run is not silent: {', '.join(loud)}"


def nothing_starts_unfenced(here: Play, decision: Decision) -> None:
    """When a gang starts, no rank of an earlier attempt of it may live anywhere, seen or unseen."""
    for action in decision.actions:
        if isinstance(action, Start):
            alive = ranks_alive(here, action.gang)
            assert all(attempt >= action.attempt for _, attempt in alive), f"{key(action)} beside {sorted(alive)}"


def the_next_look_is_never_forgotten(seen: Observation, decision: Decision) -> None:
    assert math.isfinite(decision.wake_at), "nobody will ever look again"
    assert decision.wake_at <= seen.at + (STEADY_S if decision.record.outcome is None else RELEASE_PENDING_S)


def the_order_of_nodes_does_not_matter(run: Run, before: Record, seen: Observation, decision: Decision) -> None:
    turned = replace(seen, nodes=dict(reversed(list(seen.nodes.items()))))
    again = reconcile(run, turned, before)
    assert (again.actions, again.state, again.status_message) == (
        decision.actions,
        decision.state,
        decision.status_message,
    )
    assert again.record == decision.record


def ranks_alive(here: Play, gang: GangName) -> set[tuple[NodeName, int]]:
    """The truth: which nodes have a live rank of a gang, and of which attempt; also ranks of slices that went."""
    fleet, clock = here.nodes._open(here.run)
    members, now = index_of(here.run).by_gang.get(gang, ()), clock.now()
    of_gang = {member.name for member in members}
    together = {
        member.group
        for member in members
        if here.run.group(member.group).recovery.restart_with is not RestartWith.MEMBER
    }
    return {
        (node.name, life.rank.attempt)
        for node in here.run.fleet.nodes
        for life in fleet.life(node.name).ranks
        if life.rank.member in of_gang or life.rank.member.partition("/")[0] in together
        if life.alive(now)
    }


def _node_of(action: object) -> NodeName | None:
    match action:
        case Acquire() | Prepare() | Kill() | Signal():
            return action.node
        case Release():
            return action.node if action.unit.value == "slot" else None
        case Join():
            return action.slot.node
        case _:
            return None


@BOUNDED
@given(run=runs(max_faults=5), script=crashes, asked=wishes)
def test_no_decision_breaks_a_rule_whatever_fails_and_wherever_the_controller_dies(
    run: Run, script: list[Crash], asked: list[Wish]
) -> None:
    play(run, script, asked=asked, ticks=600)


@BOUNDED
@given(run=runs(max_faults=5, kinds=CUT), script=crashes, asked=wishes)
def test_no_rule_is_broken_where_nodes_are_cut_off_from_us_and_from_each_other(
    run: Run, script: list[Crash], asked: list[Wish]
) -> None:
    play(run, script, asked=asked, ticks=600)


@BOUNDED
@given(run=runs(kinds=PASSING), script=crashes)
def test_a_run_on_nodes_that_can_be_seen_comes_to_an_end_or_waits_for_a_spare(run: Run, script: list[Crash]) -> None:
    here, decision = play(run, script)
    assert decision.state.final or decision.state is RunState.ON_HOLD, decision.status_message
    if decision.state is RunState.SUCCEEDED:
        assert all(here.record.exits[member.name].ok for member in run.members())


@BOUNDED
@given(run=runs(max_faults=8, kinds=(FaultKind.RAYLET_KILLED, FaultKind.AGENT_KILLED)), script=crashes)
def test_nodes_that_fail_one_after_the_other_never_share_a_spare_or_exceed_a_budget(
    run: Run, script: list[Crash]
) -> None:
    strict = replace(run, task=replace(run.task, groups=tuple(_impatient(group) for group in run.task.groups)))
    _, decision = play(strict, script)
    assert decision.state.final or decision.state is RunState.ON_HOLD, decision.status_message


@BOUNDED
@given(run=runs(kinds=PASSING), script=crashes, taking=paces)
def test_however_long_actions_take_no_rule_is_broken_and_the_run_comes_to_an_end_or_waits(
    run: Run, script: list[Crash], taking: list[Pace]
) -> None:
    _, decision = play(run, script, taking=taking)
    assert decision.state.final or decision.state is RunState.ON_HOLD, decision.status_message


@BOUNDED
@given(run=runs(max_faults=0), taking=paces)
def test_however_long_actions_take_a_run_without_faults_blames_no_node_and_succeeds_at_once(
    run: Run, taking: list[Pace]
) -> None:
    here, decision = play(run, [], taking=taking)
    assert decision.state is RunState.SUCCEEDED
    assert_no_restart(here)
    assert not here.record.node_attempts


def assert_no_restart(here: Play) -> None:
    """Every gang is in its first attempt; a run that may have more slices restarts to grow, and for nothing else."""
    assert here.record.grown or {gang.attempt for gang in here.record.gangs.values()} == {1}


def _impatient(group: Group) -> Group:
    return replace(group, recovery=replace(group.recovery, node_attempts=0))


@BOUNDED
@given(run=runs(max_faults=0), script=crashes)
def test_without_faults_every_run_succeeds_in_its_first_attempt(run: Run, script: list[Crash]) -> None:
    here, decision = play(run, script)
    assert decision.state is RunState.SUCCEEDED
    assert_no_restart(here)
    assert not here.record.failed_nodes


@BOUNDED
@given(run=runs(kinds=PASSING), script=crashes, at=st.integers(0, 80))
def test_down_at_any_point_leaves_nothing_anywhere(run: Run, script: list[Crash], at: int) -> None:
    here, decision = play(run, script, down_at=at)
    if decision.state is RunState.ON_HOLD:
        here.take_down()
        decision = here.drive(lambda decision: decision.state.final)
    assert decision.state.final
    look = here.nodes.look(replace(run, wanted=Wanted.NOTHING))
    assert all(
        not isinstance(view, Unseen) and view.agent is None and not view.leftovers for view in look.nodes.values()
    )
    assert all(not ranks_alive(here, name) for name in here.record.gangs)


@pytest.mark.parametrize("lose", [True, False], ids=["receipt-lost", "receipt-kept"])
@pytest.mark.parametrize("until", range(4))
@pytest.mark.parametrize("tick", range(0, 24, 3))
def test_one_crash_at_every_step_of_a_small_run_changes_nothing_about_its_end(
    tick: int, until: int, lose: bool
) -> None:
    run = make_run(slices=1, spares=1)
    run = replace(run, fleet=replace(run.fleet, sim=SimSettings(run_s=20.0)))
    here, decision = play(run, [Crash(tick=tick, until=until, lose=lose)])
    assert decision.state is RunState.SUCCEEDED
    assert here.record.gangs[GangName("run")].attempt == 1


@pytest.mark.parametrize("lose", [True, False], ids=["receipt-lost", "receipt-kept"])
@pytest.mark.parametrize("until", range(4))
@pytest.mark.parametrize("tick", range(0, 14, 2))
def test_one_crash_at_every_step_of_a_slot_that_goes_to_a_spare_changes_nothing(
    tick: int, until: int, lose: bool
) -> None:
    """Two losses one after the other, each with a spare that is up; ticks are counted from the first loss on."""
    run = make_run(slices=1, spares=2, recovery=RecoveryPolicy(node_attempts=0))
    faults = tuple(
        Fault(at=at, node=NodeName(node), fault=FaultKind.RAYLET_KILLED)
        for at, node in ((40.0, "r1-n2"), (60.0, "r1-n3"))
    )
    run = replace(run, fleet=replace(run.fleet, sim=SimSettings(run_s=60.0, faults=faults)))
    here = Play(run, (AT_ONCE,), hall(run))
    here.drive(lambda decision: "r1-n2" in decision.record.failed_nodes)
    assert here.record.spares.keys() <= {"r1-n3", "r1-n4"}
    for at in range(600):
        before, seen = here.record, here.observe()
        crashes_now = at == tick
        decision = here.tick(seen=seen, until=until, lose=lose) if crashes_now else here.tick(seen=seen)
        hold_to_rules(here, before, seen, decision)
        if crashes_now:
            here.crash()
        elif decision.state.final:
            break
        else:
            here.clock.wait(decision.wake_at, lambda: False)
    slot = here.record.slots[MemberName("main/1")]
    assert (decision.state, slot.node, slot.spare) == (RunState.SUCCEEDED, "r1-n4", True)
    assert here.record.gangs[GangName("run")].attempt == 3


LASTING = (FaultKind.POWER_CUT, FaultKind.LINK_DOWN, FaultKind.DISK_FULL, FaultKind.GPU_LOST, FaultKind.RAYLET_KILLED)


@drawn(8)
@given(
    kind=st.sampled_from(LASTING),
    rank=st.integers(0, 5),
    at=st.integers(12, 60),
    head=st.booleans(),
    script=crashes,
    taking=paces,
)
def test_where_one_node_is_at_fault_one_node_is_replaced(
    kind: FaultKind, rank: int, at: int, head: bool, script: list[Crash], taking: list[Pace]
) -> None:
    run = make_run(slices=2, nodes=3, spares=1)
    node = list(run.placement.nodes)[rank]
    fault = Fault(at=float(at), node=node, fault=kind, duration=1000.0)
    sim = SimSettings(run_s=100.0, faults=(fault,))
    machine = Access(address="10.9.9.9") if head else None
    run = replace(run, fleet=replace(run.fleet, sim=sim, head=machine))
    calm = [replace(pace, timed_out=False) for pace in taking]
    here, decision = play(run, script, taking=calm, ticks=900)
    assert here.record.failed_nodes.keys() <= {node}
    moved = {slot.node for slot in here.record.slots.values()} - {*run.placement.nodes[:6]}
    assert moved <= {NodeName(f"r{rank // 3 + 1}-n4")}
    assert all(gang.restarts == 0 for gang in here.record.gangs.values())
    assert here.record.outcome is not None, decision.status_message
    assert here.record.outcome.cause is Cause.SUCCESS, decision.status_message


@BOUNDED
@given(run=runs(max_faults=3, kinds=CUT), script=crashes)
def test_when_all_is_mended_a_run_comes_to_an_end_or_waits_for_a_person(run: Run, script: list[Crash]) -> None:
    sim = run.fleet.sim
    assert sim is not None
    mended = tuple(replace(fault, duration=fault.duration or 30.0) for fault in sim.faults)
    run = replace(run, fleet=replace(run.fleet, sim=replace(sim, faults=mended)))
    here, decision = play(run, script)
    over = decision.state.final or decision.state is RunState.ON_HOLD
    assert over, f"{decision.status_message} at {here.clock.now()}"


SHRINKS = RecoveryPolicy(on_no_spare=OnNoSpare.SHRINK, grow_after=20.0)


@drawn(8)
@given(
    least=st.integers(1, 3),
    kinds=st.lists(st.sampled_from(LASTING), min_size=1, max_size=3),
    ranks=st.lists(st.integers(0, 5), min_size=3, max_size=3),
    ats=st.lists(st.integers(5, 90), min_size=3, max_size=3),
    head=st.booleans(),
    script=crashes,
    taking=paces,
)
def test_a_run_that_may_shrink_goes_on_with_the_slices_that_are_whole_or_waits_with_the_fewest(
    least: int,
    kinds: list[FaultKind],
    ranks: list[int],
    ats: list[int],
    head: bool,
    script: list[Crash],
    taking: list[Pace],
) -> None:
    run = make_run(slices=3, nodes=2, spares=0, recovery=SHRINKS)
    rule = replace(run.task.groups[0].topology, min_slices=least, max_slices=3)
    group = replace(run.task.groups[0], topology=rule)
    places = list(run.placement.nodes)
    faults = [
        Fault(at=float(at), node=places[rank], fault=kind, duration=120.0)
        for kind, rank, at in zip(kinds, ranks, ats, strict=False)
    ]
    sim = SimSettings(run_s=60.0, faults=tuple(faults))
    machine = Access(address="10.9.9.9") if head else None
    fleet = replace(run.fleet, sim=sim, head=machine)
    calm = [replace(pace, timed_out=False) for pace in taking]
    run = replace(run, task=replace(run.task, groups=(group,), stop_grace=5.0), fleet=fleet)
    here, decision = play(run, script, taking=calm, ticks=2500, whole=fleet)
    over = here.record.outcome
    assert over is not None or decision.state is RunState.ON_HOLD, decision.status_message
    if over is None:
        assert here.run.task.groups[0].topology.slices == least, decision.status_message
