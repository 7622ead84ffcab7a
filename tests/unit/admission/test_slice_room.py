"""How many slices have room next to stored runs."""

import sqlite3
from pathlib import Path

import pytest

from launcher.admission.moves.slice_room import slice_room
from launcher.cli.output.racks import room_json
from launcher.config.inventory.read import parse_inventory
from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, UnavailableNodes
from launcher.core.model.run import Run, RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.store.database import FILE
from launcher.store.store import Store


def hall(text: str) -> Inventory:
    return parse_inventory(f"name: hall\ntransport: sim\nracks:\n{text}", Path("hall.yaml"))


RACKS = hall('  r1: {nodes: "r1-n[01-18]"}\n  r2: {nodes: "r2-n[01-18]"}\n')


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def launch(store: Store, name: str, nodes: int, rack: str) -> Run:
    rule = TopologyRule(nodes_per_slice=nodes, racks=(rack,))
    task = Task(name=name, groups=(Group(name="main", topology=rule, gpus=4, run="true"),))

    def decide(unavailable: UnavailableNodes) -> Placement:
        found = place(task, RACKS, unavailable)
        assert isinstance(found, Placement)
        return found

    return store.launch(name=RunName(name), task=task, fleet=RACKS, decide=decide, source="task.yaml", at=0.0)


def rooms(store: Store, fleet: Inventory) -> dict[int, tuple[int, int]]:
    return {room.nodes: (room.now, room.after_moves) for room in slice_room(store, fleet).rooms}


def test_an_empty_inventory_has_room_for_whole_racks(store: Store) -> None:
    assert rooms(store, RACKS) == {4: (8, 8), 8: (4, 4), 12: (2, 2), 16: (2, 2), 18: (2, 2)}


def test_runs_take_room_and_stay_where_they_are(store: Store) -> None:
    for name, nodes, rack in (("one", 4, "r1"), ("two", 10, "r2")):
        launch(store, name, nodes, rack)
    assert rooms(store, RACKS) == {4: (5, 5), 8: (2, 2), 12: (1, 1), 16: (0, 0), 18: (0, 0)}
    assert slice_room(store, RACKS).movable == 0


def test_drained_nodes_have_no_room(store: Store) -> None:
    fleet = hall('  r1: {nodes: {r1-n1: {drained: "ticket 17"}, r1-n2: {}, r1-n3: {}, r1-n4: {}}}\n')
    assert rooms(store, fleet) == {4: (0, 0)}


def test_each_kind_has_its_own_room(store: Store) -> None:
    mixed = hall(
        '  r1: {nodes: "r1-n[1-4]", accelerator: GB300}\n'
        '  r2: {nodes: "r2-n[1-6]", accelerator: H100, gpus: 8}\n'
        '  cpu: {nodes: "c[1-9]", gpus: 0}\n'
    )
    found = [(room.accelerator, room.gpus_per_node, room.nodes, room.now) for room in slice_room(store, mixed).rooms]
    assert found == [("GB300", 4, 4, 1), ("H100", 8, 4, 1), ("H100", 8, 6, 1)]


def test_json_has_sizes_in_nodes_and_gpus(store: Store) -> None:
    launch(store, "one", 14, "r1")
    found = room_json(slice_room(store, RACKS))
    assert found["movable_slices"] == 0
    assert found["sizes"][0] == {  # type: ignore[index]
        "slice_nodes": 4,
        "slice_gpus": 16,
        "accelerator": None,
        "fit_now": 5,
        "fit_after_moves": 5,
    }


def test_an_unreadable_run_keeps_its_nodes_and_is_named(store: Store) -> None:
    run = launch(store, "one", 14, "r1")
    with sqlite3.connect(store.home / FILE) as db:
        db.execute("UPDATE runs SET run = '{}' WHERE id = ?", (run.id,))
    found = slice_room(store, RACKS)
    assert [error.run for error in found.unreadable] == [run.id]
    assert found.rooms[0].now == 5
