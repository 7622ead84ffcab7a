"""Groups that a driver makes its own groups on: what the kernel is shown of slots without ranks and slices without
placement groups, and what the driver is told."""

import json
from typing import Any

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement
from launcher.core.model.run import Run, RunId, RunName, Slot
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.setup.environ import RunEnvironment
from launcher.transport.agent import drivers

RULE = TopologyRule(slices=2, nodes_per_slice=2)


def run(*groups: Group) -> Run:
    nodes = tuple(
        Node(
            name=NodeName(f"{rack}-n{at}"),
            rack=RackName(rack),
            access=Access(address=f"10.0.{rack[1:]}.{at}"),
            domain=f"d-{rack}",
        )
        for rack in ("r1", "r2")
        for at in (1, 2, 3)
    )
    fleet = Inventory(name="hall", transport=Transport.SSH, nodes=nodes)
    task = Task(name="t", groups=groups)
    placement = place(task, fleet, {})
    assert isinstance(placement, Placement)
    return Run(id=RunId("id"), name=RunName("t"), task=task, placement=placement, fleet=fleet)


def slots(run: Run) -> tuple[Slot, ...]:
    holders = [name for part in run.placement.slices for name in part.nodes]
    return tuple(Slot(member=m.name, node=n, generation=1) for m, n in zip(run.members(), holders, strict=True))


def driven(*, reserve: bool = False) -> Group:
    return Group(name="main", topology=RULE, gpus=4, driver="python a.py", reserve=reserve)


def row(attempt: int, **more: Any) -> dict[str, Any]:
    return {"member": "main/0", "attempt": attempt, "running": True, **more}


def test_slots_fare_as_their_driver_does() -> None:
    ended = row(2, running=False, exit_code=3, at=7.0, tail=["boom"])
    told: list[dict[str, Any]] = [
        {"member": "main/0", "ranks": [row(1), ended]},
        {"member": "main/1", "ranks": []},
        {"member": "other/1", "ranks": []},
        {"member": None, "ranks": []},
        {"ok": False, "message": "silent"},
    ]
    drivers.follow(run(driven()), told)
    assert told[0]["ranks"] == [row(1), ended]
    assert told[1]["ranks"] == [{**ended, "member": "main/1", "tail": []}]
    assert [answer.get("ranks") for answer in told[2:]] == [[], [], None]


def test_a_driver_that_moved_is_judged_by_its_newest_attempt() -> None:
    told: list[dict[str, Any]] = [
        {"member": "main/0", "ranks": [row(1, running=False, exit_code=None)]},
        {"member": "main/0", "ranks": [row(2)]},
        {"member": "main/3", "ranks": []},
    ]
    drivers.follow(run(driven()), told)
    assert told[2]["ranks"] == [{**row(2), "member": "main/3", "tail": []}]


def test_nothing_is_told_of_slots_whose_driver_is_not_seen() -> None:
    told: list[dict[str, Any]] = [{"ok": False, "message": "silent"}, {"member": "main/1", "ranks": []}]
    drivers.follow(run(driven()), told)
    assert told[1]["ranks"] == []


def nodes(**generations: int) -> list[dict[str, Any]]:
    return [
        {"slot": name.replace("_", "-"), "generation": at, "domain": "d-r1", "alive": True}
        for name, at in generations.items()
    ]


def test_a_slice_is_in_place_when_each_of_its_slots_is_alive_in_its_newest_generation() -> None:
    told = {"groups": [], "nodes": [*nodes(main_0=1, main_1=2), *nodes(main_1=1, main_2=1)]}
    drivers.add_groups(run(driven()), told)
    assert [(group["slice"], group["state"]) for group in told["groups"]] == [("main.s0", "CREATED")]
    assert [(one["index"], one["slot"], one["generation"]) for one in told["groups"][0]["bundles"]] == [
        (0, "main-0", 1),
        (1, "main-1", 2),
    ]


def test_a_slot_that_is_dead_in_ray_leaves_its_slice_out_of_place() -> None:
    told = {"groups": [], "nodes": [*nodes(main_0=1), {**nodes(main_1=1)[0], "alive": False}]}
    drivers.add_groups(run(driven()), told)
    assert told["groups"] == []


def test_what_is_reserved_stays_rays_to_tell() -> None:
    told = {"groups": [], "nodes": nodes(main_0=1, main_1=1)}
    drivers.add_groups(run(driven(reserve=True)), told)
    assert told["groups"] == []
    assert drivers.open_slices(run(Group(name="main", topology=RULE, run="x"))) == {}


@pytest.mark.parametrize(("reserve", "group"), [(False, None), (True, "main.s1")])
def test_a_driver_is_told_its_slices_with_nodes_and_labels(reserve: bool, group: str | None) -> None:
    made = run(driven(reserve=reserve))
    first, second = json.loads(RunEnvironment(made).slices(slots(made)))
    assert [node["name"] for node in first["nodes"] + second["nodes"]] == list(made.placement.nodes)
    assert second["placement_group"] == group
    rack = second["rack"]
    assert (second["group"], second["slice"], second["domain"]) == ("main", 1, f"d-{rack}")
    assert second["labels"]["ray.io/gpu-domain"] == f"d-{rack}"
    assert second["nodes"][0]["labels"]["nvlaunch.io/slot"] == "main-2"
    assert (second["nodes"][0]["rank"], second["nodes"][0]["gpus"]) == (2, 4)
    assert second["nodes"][0]["address"].startswith(f"10.0.{rack[1:]}.")
