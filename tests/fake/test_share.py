"""Groups that share nodes, while nodes fail: whoever sits on a node comes back with it, or moves with it."""

from copy import deepcopy
from typing import Any

import pytest

from launcher.core.model.actions import Kill
from launcher.core.model.run import MemberName, RunState
from tests.fake.test_scenarios import Scenario, check

TASK = {"nodes": 2, "spares": 1, "guest": 2, "max_restarts": 3}
SCENES: dict[str, dict[str, Any]] = {
    "a raylet is killed: all on its node start again in place": {
        "fleet": {"racks": 1, "nodes": 3},
        "task": TASK,
        "faults": [{"at": 30, "node": "r1-n2", "fault": "raylet_killed"}],
        "expect": {"state": "succeeded", "attempts": 2, "restarts": 0, "untouched": "r1-n1", "within": 12},
    },
    "a node loses its power: all on it move to the spare": {
        "fleet": {"racks": 1, "nodes": 3},
        "task": TASK,
        "faults": [{"at": 30, "node": "r1-n2", "fault": "power_cut", "duration": 100}],
        "expect": {
            "state": "succeeded",
            "swaps": {"main/1": "r1-n3", "guest/1": "r1-n3"},
            "attempts": 2,
            "restarts": 0,
            "untouched": "r1-n1",
        },
    },
    "the node of the head is lost: Ray begins anew, and all on that node move": {
        "fleet": {"racks": 1, "nodes": 4},
        "task": {"nodes": 3, "spares": 1, "guest": 3},
        "faults": [{"at": 30, "node": "r1-n1", "fault": "power_cut", "duration": 200}],
        "expect": {
            "state": "succeeded",
            "swaps": {"main/0": "r1-n4", "guest/0": "r1-n4"},
            "attempts": 2,
            "clusters": 1,
            "restarts": 0,
        },
    },
    "a rank of a guest fails: who shares its nodes restarts with it": {
        "fleet": {"racks": 1, "nodes": 3},
        "task": TASK,
        "faults": [{"at": 30, "node": "r1-n2", "fault": "rank_killed"}],
        "expect": {"state": "succeeded", "attempts": 2, "restarts": 1, "untouched": "r1-n[1-2]"},
    },
    "one member a gang: only those on the node that failed start again": {
        "fleet": {"racks": 1, "nodes": 3},
        "task": {**TASK, "restart_with": "member"},
        "faults": [{"at": 30, "node": "r1-n2", "fault": "raylet_killed"}],
        "expect": {"state": "succeeded", "attempts": 2, "restarts": 0, "untouched": "r1-n1"},
    },
    "a rack is lost: its slice and the guests on it find another": {
        "fleet": {"racks": 2, "nodes": 3, "head": True},
        "task": {"nodes": 3, "guest": 1, "on_no_spare": "relocate"},
        "faults": [{"at": 30, "node": "r1-n[1-3]", "fault": "power_cut", "duration": 100}],
        "expect": {
            "state": "succeeded",
            "swaps": {"main/0": "r2-n1", "main/1": "r2-n2", "main/2": "r2-n3", "guest/0": "r2-n1"},
            "attempts": 2,
            "restarts": 0,
        },
    },
    "an operator drains a node: all on it move": {
        "fleet": {"racks": 1, "nodes": 3},
        "task": TASK,
        "orders": [{"at": 30, "order": "drain", "subject": "r1-n2"}],
        "expect": {
            "state": "succeeded",
            "swaps": {"main/1": "r1-n3", "guest/1": "r1-n3"},
            "attempts": 2,
            "restarts": 0,
        },
    },
    "an operator wants a guest elsewhere: its host goes with it": {
        "fleet": {"racks": 2, "nodes": 2, "head": True},
        "task": {"nodes": 2, "guest": 1},
        "orders": [{"at": 30, "order": "relocate", "subject": "guest.s0"}],
        "expect": {
            "state": "succeeded",
            "swaps": {"main/0": "r2-n1", "main/1": "r2-n2", "guest/0": "r2-n1"},
            "attempts": 2,
            "restarts": 0,
        },
    },
}


APART = {**TASK, "guest": 1, "restart_with": "group"}
MIXED: dict[str, dict[str, Any]] = {
    "a rank of the host fails elsewhere: the guest goes on beside one that starts again": {
        "task": APART,
        "faults": [{"at": 30, "node": "r1-n2", "fault": "rank_killed"}],
        "attempts": {"main": 2, "guest": 1},
        "where": {"main/0": "r1-n1", "main/1": "r1-n2", "guest/0": "r1-n1"},
    },
    "the node of both fails: both come back": {
        "task": APART,
        "faults": [{"at": 30, "node": "r1-n1", "fault": "raylet_killed"}],
        "attempts": {"main": 2, "guest": 2},
        "where": {"main/0": "r1-n1", "main/1": "r1-n2", "guest/0": "r1-n1"},
    },
    "a node of the host alone is drained: the guest gets no signal": {
        "task": APART,
        "orders": [{"at": 30, "order": "drain", "subject": "r1-n2"}],
        "attempts": {"main": 2, "guest": 1},
        "where": {"main/0": "r1-n1", "main/1": "r1-n3", "guest/0": "r1-n1"},
    },
    "the node of both is drained: both are told, and both move": {
        "task": {**APART, "nodes": 3},
        "orders": [{"at": 30, "order": "drain", "subject": "r1-n1"}],
        "attempts": {"main": 2, "guest": 2},
        "where": {"main/0": "r1-n4", "main/1": "r1-n2", "main/2": "r1-n3", "guest/0": "r1-n4"},
    },
}


@pytest.mark.parametrize("crashes", [(), (0.0, 1.0, 9.0, 19.0, 22.0)], ids=["calm", "controller killed"])
@pytest.mark.parametrize("scene", MIXED.values(), ids=MIXED.keys())
def test_a_guest_of_another_gang_goes_on_unless_its_node_is_lost(
    scene: dict[str, Any], crashes: tuple[float, ...]
) -> None:
    told = {"fleet": {"racks": 1, "nodes": 4, "head": True}, "expect": {}, **deepcopy(scene)}
    here = Scenario(told)
    last = here.go(tuple(here.began() + after for after in crashes))
    assert last.state is RunState.SUCCEEDED, last.status_message
    assert {name: gang.attempt for name, gang in last.record.gangs.items()} == scene["attempts"]
    assert {name: slot.node for name, slot in last.record.slots.items()} == scene["where"]
    assert {name for name, gang in last.record.gangs.items() if gang.restarts} <= {"main"}


@pytest.mark.parametrize("crashes", [(), (0.0, 1.0, 9.0, 19.0, 22.0)], ids=["calm", "controller killed"])
@pytest.mark.parametrize("scene", SCENES.values(), ids=SCENES.keys())
def test_who_sits_on_one_node_fares_as_one(scene: dict[str, Any], crashes: tuple[float, ...]) -> None:
    told = deepcopy(scene)
    here = Scenario(told)
    last = here.go(tuple(here.began() + after for after in crashes))
    if crashes:
        told["expect"].pop("within", None)
    check(here, last)


def _kills(here: Scenario) -> set[tuple[str, str, bool]]:
    """Of each kill: how much of whom, and whether the GPUs have to be free then."""
    actions = (action for moment in here.moments for action in moment.decision.actions)
    return {(one.level.value, one.member, one.reused) for one in actions if isinstance(one, Kill)}


@pytest.mark.parametrize(("restart_with", "asks"), [("run", False), ("group", True)])
def test_each_on_a_node_is_fenced_and_gpus_are_asked_about_once_a_gang(restart_with: str, asks: bool) -> None:
    told = {"nodes": 2, "guest": 2, "spares": 1, "restart_with": restart_with, "max_restarts": 3}
    for fault, level in (("raylet_killed", "generation"), ("rank_killed", "rank")):
        fault_there = {"at": 30, "node": "r1-n2", "fault": fault}
        here = Scenario({"fleet": {"racks": 1, "nodes": 3}, "task": told, "faults": [fault_there], "expect": {}})
        here.go()
        assert {(level, "main/1", True), (level, "guest/1", asks)} <= _kills(here)


def test_every_group_of_a_place_that_is_left_is_taken_back() -> None:
    told = {"fleet": {"racks": 2, "nodes": 2, "head": True}, "task": {"nodes": 2, "guest": 1}, "expect": {}}
    here = Scenario({**told, "orders": [{"at": 30, "order": "relocate", "subject": "main.s0"}]})
    here.go()
    assert {"unreserve:main.s0", "unreserve:guest.s0"} <= set(here.acts())


def test_a_node_that_falls_silent_ends_the_attempt_of_each_gang_on_it() -> None:
    task = {"nodes": 2, "guest": 2, "spares": 1, "restart_with": "group", "run_s": 200}
    cut = {"at": 30, "node": "r1-n2", "fault": "link_down", "duration": 100}
    here = Scenario({"fleet": {"racks": 1, "nodes": 3, "head": True}, "task": task, "faults": [cut], "expect": {}})
    last = here.go()
    assert last.state is RunState.SUCCEEDED, last.status_message
    assert {name: gang.attempt for name, gang in last.record.gangs.items()} == {"main": 2, "guest": 2}
    assert last.record.slots[MemberName("guest/1")].node == "r1-n3"
