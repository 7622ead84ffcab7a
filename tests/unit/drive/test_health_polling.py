"""Which nodes are asked for their health, when, and that nobody waits for their answers."""

import itertools
from collections.abc import Collection
from concurrent.futures import Executor, Future
from typing import Any

import pytest

from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Sign, Symptom, Unseen
from launcher.core.model.run import Run
from launcher.drive.health_polling import AGAIN_S, EVERY_S, MOST_A_SECOND, HealthPoller
from tests.situations import make_run, name

RUN = make_run(slices=1, nodes=3, spares=0)
ALL = tuple(name(1, at) for at in (1, 2, 3))


class Time:
    at = 100.0

    def now(self) -> float:
        return self.at


class Asked(Executor):
    """Questions that are answered when the test says so."""

    def __init__(self) -> None:
        self.open: dict[NodeName, Future[Health | Unseen]] = {}
        self.times: dict[NodeName, list[float]] = {}
        self.clock = Time()

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Any:
        self.open[args[1]] = Future()
        self.times.setdefault(args[1], []).append(self.clock.at)
        return self.open[args[1]]

    def answer(self, node: NodeName, found: Health | Unseen) -> None:
        self.open.pop(node).set_result(found)

    def inspect(self, run: Run, node: NodeName) -> Health | Unseen:
        raise AssertionError("it is asked in the background")


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def checkups(asked: Asked) -> HealthPoller:
    return HealthPoller(asked, asked.clock, asked)  # type: ignore[arg-type]  # the one method of `Nodes` that is called


def go_on(checkups: HealthPoller, asked: Asked, seconds: float, doubted: Collection[NodeName] = ()) -> None:
    for _ in range(int(seconds)):
        checkups.begin(RUN, ALL, doubted)
        for node in list(asked.open):
            asked.answer(node, Health(at=0.0))
        checkups.begin(RUN, ALL, doubted)
        assert set(checkups.health) <= set(ALL)
        asked.clock.at += 1


def test_each_node_is_asked_once_a_minute_and_they_take_turns(checkups: HealthPoller, asked: Asked) -> None:
    go_on(checkups, asked, 3 * EVERY_S)
    assert {node: len(times) for node, times in asked.times.items()} == dict.fromkeys(ALL, 3)
    assert sorted(times[0] - 100.0 for times in asked.times.values()) == [0.0, 20.0, 40.0]


def test_of_many_nodes_each_is_asked_less_often(asked: Asked) -> None:
    run = make_run(slices=125, nodes=16, spares=0)
    names = [node.name for node in run.fleet.nodes]
    checkups = HealthPoller(asked, asked.clock, asked)  # type: ignore[arg-type]  # as above
    begun = []
    for _ in range(60):
        before = sum(map(len, asked.times.values()))
        checkups.begin(run, names, ())
        begun.append(sum(map(len, asked.times.values())) - before)
        asked.clock.at += 1
    assert max(begun) <= MOST_A_SECOND + 1
    assert sum(begun) >= 60 * MOST_A_SECOND * 0.9


def test_a_doubted_node_is_asked_at_once_and_its_health_is_of_when_it_was_asked(
    checkups: HealthPoller, asked: Asked
) -> None:
    go_on(checkups, asked, 5)
    checkups.begin(RUN, ALL, {ALL[2]})
    asked.clock.at += 7
    assert not checkups.pending()
    sick = Health(at=0.0, signs=(Sign(symptom=Symptom.GPU_LOST, message="gone"),))
    asked.answer(ALL[2], sick)
    assert checkups.pending()
    found = checkups.health[ALL[2]]
    assert (found.at, found.worst) == (105.0, Symptom.GPU_LOST)


def test_a_node_is_asked_one_question_at_a_time_and_not_more_than_once_a_second(
    checkups: HealthPoller, asked: Asked
) -> None:
    for _ in range(30):
        checkups.begin(RUN, ALL, {ALL[2]})
        asked.clock.at += 0.25
    assert len(asked.times[ALL[2]]) == 1
    asked.answer(ALL[2], Health(at=0.0))
    for _ in range(8):
        assert checkups.health is not None
        checkups.begin(RUN, ALL, {ALL[2]})
        if ALL[2] in asked.open:
            asked.answer(ALL[2], Health(at=0.0))
        asked.clock.at += 0.25
    times = asked.times[ALL[2]]
    assert min(later - earlier for earlier, later in itertools.pairwise(times)) >= AGAIN_S


def test_a_node_out_of_sight_keeps_what_was_known_of_it(checkups: HealthPoller, asked: Asked) -> None:
    go_on(checkups, asked, 1)
    before = dict(checkups.health)
    checkups.begin(RUN, (), {ALL[0]})
    asked.clock.at += 2
    checkups.begin(RUN, (), {ALL[0]})
    asked.answer(ALL[0], Unseen(message="no answer"))
    assert checkups.health == before


def test_what_is_not_of_the_run_is_not_asked(checkups: HealthPoller, asked: Asked) -> None:
    checkups.begin(RUN, (NodeName("r9-n9"),), {NodeName("r9-n8")})
    assert asked.times == {}
