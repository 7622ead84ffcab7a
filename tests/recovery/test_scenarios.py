"""Each failure on real hosts, as its scenario says: who is replaced, who is not touched, what the program lost."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.core.model.nodeset import expand
from tests.effort import SOAK
from tests.fake.test_scenarios import SCENARIOS, read
from tests.recovery.stage import Stage
from tests.rig import Rig

PATHS = {path.stem: path for path in SCENARIOS}
PATIENCE_S = 150.0
QUIET_S = 12.0
SLOW = 2.0
"""Times of scenarios are for racks, whose nodes have cores of their own: here two cores start all of them."""

SCENES = (
    "raylet_killed",
    "agent_killed",
    "rank_killed",
    "link_10s",
    "raylet_stopped",
    "head_killed",
    "host_reboots",
    "power_cut",
    "power_cut_fenced",
    "power_cut_queried",
    "gpu_lost",
    "one_link_dies",
    "disk_full",
    "two_nodes_two_spares",
    "head_node_lost",
    "rack_lost",
    "bastion_down",
    "drain",
    "gpu_taken",
    "half_a_rack_of_five",
    "shrinks_and_grows",
)
SLOW_SCENES = (
    "raylet_stopped_10s",
    "link_40s",
    "link_5min",
    "links_flap",
    "two_nodes_one_spare",
    "two_slices_one_spare",
    "no_spare_node_returns",
    "fails_again_and_again",
    "program_fails",
    "program_fails_on_one_node",
    "hang",
    "gpu_taken_no_spare",
    "head_killed_90s",
    "ends_60s_apart",
    "late_rank_fails",
)

EITHER = {
    "two_nodes_one_spare": (
        {"main/1": "r1-n5", "main/2": "r1-n2"},
        {"main/2": "r1-n5"},
        {"main/2": "r1-n5", "main/1": "r1-n3"},
    ),
    "two_slices_one_spare": ({"main/2": "r1-n3"},),
}
"""Where two nodes are lost at one moment, either is missed first, and either comes back to wait on."""


SIM_ALONE = ("clusters", "never_said", "until", "hot")
"""What only an imaginary fleet is held to: its record is at hand, and each of its headlines."""


def shorter(lasts: float) -> float:
    """What a scenario says lasts for minutes lasts long enough to tell here; in a soak it lasts as long as it says."""
    return lasts if SOAK else min(lasts, 60.0)


@pytest.fixture
def stage(request: pytest.FixtureRequest, rig: Rig, tmp_path: Path) -> Iterator[Stage]:
    name = request.param
    made = Stage(rig, tmp_path, name.replace("_", ""), read(PATHS[name]), either=EITHER.get(name, ()))
    yield made
    made.clear()


@pytest.mark.parametrize("stage", [*SCENES, *(SLOW_SCENES if SOAK else ())], indirect=True)
def test_what_comes_of_a_fault_on_real_hosts(stage: Stage, record_property: Any) -> None:
    expect = dict(stage.told["expect"])
    stage.up()
    stage.strike(shorter)
    if expect.get("attempts", 2) == 1:
        stage.goes_on(stage.lasts(shorter) + QUIET_S)
    else:
        took = stage.recovered(expect.get("attempts", 2), PATIENCE_S)
        record_property("recovered_s", round(took, 1))
        print(f"{stage.name}: every rank counts again after {took:.1f} s")
        assert took <= SLOW * expect.get("within", PATIENCE_S)
        if any(fault["fault"] == "link_down" for fault in stage.told.get("faults", ())):
            # The old holder is heard again, and must not have gone on, nor go on now.
            stage.passes(max(0.0, stage.lasts(shorter) - took) + QUIET_S)
    acts = [event["subject"] for event in stage.later_events() if event["kind"] == "intent"]
    if expect.pop("nothing", False):
        assert not acts
    state = expect.pop("state")
    last = stage.over() if state == "failed" else stage.finish()
    assert last["state"] == state, last["status_message"]
    if not stage.either:
        assert last["attempt"] == expect.get("attempts", last["attempt"]), acts
    assert last["outcome"]["cause"] == expect.pop("cause", last["outcome"]["cause"])
    began = {f"main/{rank['rank']}": rank["node"] for rank in stage.first["ranks"]}
    moved = {f"main/{rank['rank']}": rank["node"] for rank in last["ranks"]}
    swaps = expect.pop("swaps", {})
    assert {name: node for name, node in moved.items() if began[name] != node} in (swaps, *stage.either)
    assert last["restarts"] == expect.pop("restarts", last["restarts"])
    acts = [event["subject"] for event in stage.later_events() if event["kind"] == "intent"]
    touched = {subject.split(":")[1].split("#")[0] for subject in acts if subject.split(":")[0] in ("prepare", "join")}
    untouched = set(expand(expect.pop("untouched"))) if "untouched" in expect else set()
    assert not touched & untouched, acts
    said = [event["message"] for event in stage.later_events()]
    unsaid = [words for words in expect.pop("said", ()) if not any(words in line for line in said)]
    assert not unsaid, said
    stage.hold_the_count()
    again = [node for node in untouched if stage.setups(node) > 1]
    assert not again, f"{again} ran their setup twice"
    assert not expect.keys() - {"attempts", "within", *SIM_ALONE}, f"unknown expectations {expect}"


@pytest.mark.parametrize(
    "fault",
    [
        {"at": 30, "node": "r1-n2", "fault": "host_paused", "duration": 8},
        {"at": [30, 41, 52], "node": "r1-n2", "fault": "link_down", "duration": 5},
    ],
    ids=lambda fault: fault["fault"],
)
@pytest.mark.parametrize("stage", ["link_10s"], indirect=True)
def test_a_machine_that_stands_still_or_whose_link_flaps_costs_nothing(stage: Stage, fault: dict[str, Any]) -> None:
    stage.told = {**stage.told, "faults": [fault]}
    stage.up()
    stage.strike()
    stage.goes_on(stage.lasts(shorter) + QUIET_S)
    assert not [event["subject"] for event in stage.later_events() if event["kind"] == "intent"]
    last = stage.finish()
    assert (last["state"], last["attempt"], last["restarts"]) == ("succeeded", 1, 0)
    stage.hold_the_count()


@pytest.mark.parametrize("stage", ["power_cut"], indirect=True)
def test_a_controller_killed_again_and_again_recovers_all_the_same(stage: Stage) -> None:
    chance = random.Random(None if SOAK else 1)
    stage.up()
    stage.strike(shorter)
    for _ in range(50 if SOAK else 5):
        stage.lose_controller(chance.uniform(0.5, 7.0))
    took = stage.recovered(2, PATIENCE_S)
    print(f"{stage.name}: every rank counts again after {took:.1f} s, with controllers killed meanwhile")
    last = stage.finish()
    assert (last["state"], last["restarts"]) == ("succeeded", 0)
    assert [rank["node"] for rank in last["ranks"]] == ["r1-n1", "r1-n4", "r1-n3"]
    stage.hold_the_count()
