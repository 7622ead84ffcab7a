"""Laws of the queue: no run delays an earlier one, none starves, and only preemptible runs are preempted."""

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.queue.backfill import QueueDecision, QueuedRun, schedule
from launcher.core.queue.preemption import ActiveRun, victims
from launcher.core.queue.timeline import fit
from tests.effort import drawn

FLEET = Inventory(
    name="hall",
    transport=Transport.SIM,
    nodes=tuple(
        Node(
            name=NodeName(f"r{rack}-n{tray}"),
            rack=RackName(f"r{rack}"),
            domain=f"r{rack}",
            access=Access(address="10.0.0.1"),
            gpus=4,
        )
        for rack in range(3)
        for tray in range(3)
    ),
)
QUICK = drawn(30)


def task(slices: int, nodes: int, *, priority: int = 0, limit: float | None = None, exclusive: bool = False) -> Task:
    rule = TopologyRule(slices=slices, nodes_per_slice=nodes, exclusive="rack" if exclusive else None)
    groups = (Group(name="main", topology=rule, gpus=4, run="true"),)
    return Task(name="job", groups=groups, priority=priority, time_limit=limit)


tasks = st.builds(
    task,
    st.sampled_from([1, 1, 2, 3]),
    st.integers(1, 3),
    priority=st.integers(0, 2),
    limit=st.sampled_from([None, 60.0, 600.0, 3600.0]),
    exclusive=st.sampled_from([False, False, False, True]),
)
limited = tasks.map(lambda found: replace(found, time_limit=found.time_limit or 600.0))


def waits(number: int, of: Task, since: float | None = None) -> QueuedRun:
    at = float(number) if since is None else since
    return QueuedRun(id=RunId(f"w{number:02}"), name=RunName(f"w{number:02}"), task=of, since=at)


lines = st.lists(tasks, min_size=1, max_size=5).map(
    lambda found: tuple(waits(number, one) for number, one in enumerate(found))
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hall:
    """The nodes that are not free, and the active runs."""

    unavailable: dict[NodeName, Unavailable]
    going: tuple[ActiveRun, ...]

    def with_started(self, started: Sequence[QueueDecision]) -> "Hall":
        """The same after some runs have started."""
        unavailable, going = dict(self.unavailable), list(self.going)
        for turn in started:
            assert turn.placement is not None
            one = turn.run
            going.append(going_of(one.name, one.task, one.max_duration))
            for name in (*turn.placement.nodes, *turn.placement.exclusive_nodes):
                unavailable[name] = replace(unavailable.get(name, Unavailable()), used_by=one.name)
        return Hall(unavailable=unavailable, going=tuple(going))

    def turns(self, waiting: Sequence[QueuedRun]) -> tuple[QueueDecision, ...]:
        return schedule(waiting, FLEET, self.unavailable, self.going)


def going_of(name: str, of: Task, left: float) -> ActiveRun:
    return ActiveRun(name=RunName(name), priority=of.priority, preemptible=of.preemptible, since=0.0, remaining=left)


@st.composite
def halls(draw: st.DrawFn, *, bounded: bool = False) -> Hall:
    """Nodes in use by a few runs, and a few unhealthy ones."""
    holders = [Unavailable(used_by=name) for name in ("a", "b", "c")]
    marks = st.sampled_from([None, None, *holders, Unavailable(unhealthy="xid 79")])
    unavailable = {node.name: mark for node in FLEET.nodes if (mark := draw(marks)) is not None}
    spans = st.sampled_from([30.0, 700.0, 4000.0] if bounded else [30.0, 700.0, 4000.0, math.inf])
    going = tuple(
        ActiveRun(
            name=RunName(name),
            priority=draw(st.integers(0, 2)),
            preemptible=draw(st.booleans()),
            since=draw(st.sampled_from([1.0, 2.0, 3.0])),
            remaining=draw(spans),
        )
        for name in ("a", "b", "c")
    )
    return Hall(unavailable=unavailable, going=going)


@QUICK
@given(halls(), lines, st.randoms(use_true_random=False))
def test_the_order_of_the_inputs_does_not_matter(
    hall: Hall, waiting: tuple[QueuedRun, ...], chance: random.Random
) -> None:
    def shuffled(found: Sequence[object]) -> list[object]:
        return chance.sample(list(found), len(found))

    mixed = Hall(
        unavailable={name: hall.unavailable[name] for name in shuffled(list(hall.unavailable))},  # type: ignore[index, misc]
        going=tuple(shuffled(hall.going)),  # type: ignore[arg-type]
    )
    assert mixed.turns(shuffled(waiting)) == hall.turns(waiting)  # type: ignore[arg-type]


@QUICK
@given(halls(), lines)
def test_runs_that_start_get_free_nodes_and_no_node_twice(hall: Hall, waiting: tuple[QueuedRun, ...]) -> None:
    given_away: set[NodeName] = set()
    for turn in hall.turns(waiting):
        if turn.placement is not None:
            assert turn.after == 0
            ours = {*turn.placement.nodes, *turn.placement.exclusive_nodes}
            assert not ours & given_away
            assert not set(turn.placement.nodes) & hall.unavailable.keys()
            given_away |= ours


@QUICK
@given(halls(), lines)
def test_the_first_run_starts_if_it_fits(hall: Hall, waiting: tuple[QueuedRun, ...]) -> None:
    first = hall.turns(waiting)[0]
    assert first.run == min(waiting, key=lambda one: (-one.task.priority, one.since))
    fits = fit(first.run.task, FLEET, hall.unavailable) is not None
    assert (first.placement is not None) is fits


@QUICK
@given(halls(), lines)
def test_a_run_that_starts_delays_no_earlier_run(hall: Hall, waiting: tuple[QueuedRun, ...]) -> None:
    decided = hall.turns(waiting)
    for at, passer in enumerate(decided):
        if passer.placement is None:
            continue
        left = [turn.run for turn in decided if turn is not passer]
        after = {turn.run.id: turn.after for turn in hall.with_started([passer]).turns(left)}
        for turn in decided[:at]:
            told, now = turn.after, after[turn.run.id]
            assert told is None or (now is not None and now <= told), (turn.run.id, passer.waiting.id)


@QUICK
@given(halls(), lines)
def test_a_run_of_unknown_start_loses_no_node_that_it_could_use(hall: Hall, waiting: tuple[QueuedRun, ...]) -> None:
    decided = hall.turns(waiting)
    marks = {name: mark for name, mark in hall.unavailable.items() if mark.unhealthy}
    for at, turn in enumerate(decided):
        if turn.after is not None or fit(turn.run.task, FLEET, marks) is None:
            continue
        for passer in decided[at + 1 :]:
            assert passer.placement is None or not _could_use(turn.run.task, marks, passer.placement)


def _could_use(of: Task, marks: dict[NodeName, Unavailable], placement: Placement) -> bool:
    """Whether a slice could ever have one of these nodes: its rack has room for one."""
    racks = {name.split("-")[0] for name in placement.nodes}
    well = [node for node in FLEET.nodes if node.name not in marks and node.rack in racks]
    size = of.groups[0].topology.nodes_per_slice
    return any(sum(node.rack == rack for node in well) >= size for rack in racks)


@QUICK
@given(halls(bounded=True), st.lists(limited, min_size=1, max_size=4), st.data())
def test_no_run_starves_however_many_small_ones_come(hall: Hall, big: list[Task], data: st.DataObject) -> None:
    """Small runs keep arriving. The first in the queue never gets a later time, and in the end all have started."""
    waiting = [waits(number, replace(one, priority=0)) for number, one in enumerate(big)]
    marks = {name: mark for name, mark in hall.unavailable.items() if mark.unhealthy}
    waiting = [one for one in waiting if fit(one.task, FLEET, marks) is not None]
    wanted, now, number, promised = {one.id for one in waiting}, 0.0, len(big), dict[RunId, float]()
    for _ in range(60):
        waiting.append(waits(number, task(1, 1, limit=data.draw(st.sampled_from([1.0, 900.0]))), now + 100))
        number += 1
        decided = hall.turns(waiting)
        head = decided[0]
        assert head.after is not None
        assert now + head.after <= promised.setdefault(head.run.id, now + head.after) + 1e-6
        started = [turn for turn in decided if turn.placement is not None]
        hall = hall.with_started(started)
        waiting = [one for one in waiting if one.id not in {turn.run.id for turn in started}]
        wanted -= {turn.run.id for turn in started}
        if not wanted:
            return
        step = min(one.remaining for one in hall.going)
        now += step
        hall = _later(hall, step)
    raise AssertionError(f"{wanted} never started")


def _later(hall: Hall, step: float) -> Hall:
    """The same after a while: runs that have used up their time are gone."""
    going = tuple(replace(one, remaining=one.remaining - step) for one in hall.going if one.remaining > step)
    names = {one.name for one in going}
    held = {
        name: mark if mark.used_by in names else replace(mark, used_by=None) for name, mark in hall.unavailable.items()
    }
    return Hall(unavailable={name: mark for name, mark in held.items() if mark.unhealthy or mark.used_by}, going=going)


@QUICK
@given(halls(), tasks)
def test_as_few_runs_as_possible_are_preempted_and_only_preemptible_ones(hall: Hall, asked: Task) -> None:
    chosen = victims(asked, FLEET, hall.unavailable, hall.going)
    able = {one.name for one in hall.going if one.preemptible and one.priority < asked.priority}

    def fits_without(names: Sequence[str]) -> bool:
        unavailable = {name: mark for name, mark in hall.unavailable.items() if mark.used_by not in names}
        return fit(asked, FLEET, unavailable) is not None

    fewest = next((size for size in range(4) for some in combinations(able, size) if fits_without(some)), None)
    assert set(chosen) <= able
    assert len(chosen) == (fewest or 0)
    assert not chosen or fits_without(chosen)
