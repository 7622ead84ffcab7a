"""Nodes that somebody else took first: the launch goes elsewhere by itself, and says whose they are where it cannot."""

import json
from pathlib import Path

import pytest

from launcher.store.store import Store
from tests.command.test_runs import Desk

HELD = "{at: 0, node: %s, fault: lease_held}"


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def hold(desk: Desk, *nodes: str) -> None:
    """Somebody has these nodes, and nobody knows before they are asked for."""
    desk.fleet("{seed: 1, speed: inf, faults: [" + ", ".join(HELD % node for node in nodes) + "]}")


def one_slice(desk: Desk) -> None:
    task = (desk.folder / "task.yaml").read_text()
    (desk.folder / "task.yaml").write_text(task.replace("slices: 2", "slices: 1"))


@pytest.mark.parametrize("how", ["--foreground", "--detach", None])
def test_a_launch_that_loses_its_nodes_takes_others_by_itself(desk: Desk, how: str | None) -> None:
    one_slice(desk)
    hold(desk, "r1-n1", "r1-n2")
    done = desk.run("up", "task.yaml", "-i", "fleet.yaml", "-y", *([how] if how else []))
    assert done.returncode == 0, done.stderr
    said = "r1-n[1-2] held by `somebody@elsewhere`; placing `job` again"
    assert done.stderr.count(said) == 1
    assert "main.s0  r2    r2-n[1-2]" in done.stderr or "r2-n[1-2]" in done.stderr.split(said)[1]
    if how == "--detach":
        assert desk.run("watch", "job").returncode == 0
    nodes = {rank["node"] for rank in desk.status()["ranks"]}
    assert nodes == {"r2-n1", "r2-n2"}


def test_one_node_of_a_rack_is_enough_to_be_passed_over(desk: Desk) -> None:
    one_slice(desk)
    hold(desk, "r1-n1")
    done = desk.up()
    assert done.returncode == 0, done.stderr
    assert {rank["node"] for rank in desk.status()["ranks"]} == {"r1-n2", "r1-n3"}


def test_a_spare_that_takes_the_place_of_a_held_node_is_named(desk: Desk) -> None:
    task = (desk.folder / "task.yaml").read_text()
    (desk.folder / "task.yaml").write_text(task.replace("slices: 2", "slices: 1, spares: 1"))
    hold(desk, "r1-n1")
    done = desk.up()
    assert done.returncode == 0, done.stderr
    assert " r1-n1: held by `somebody@elsewhere`; replaced by r1-n3\n" in done.stderr


def test_where_nothing_else_fits_the_holder_is_named_and_the_exit_code_is_six(desk: Desk) -> None:
    hold(desk, "r1-n1", "r1-n2")
    done = desk.up()
    assert done.returncode == 6, done.stderr
    assert "error: not enough nodes left for `job`: r1-n[1-2] held by `somebody@elsewhere`" in done.stderr
    assert "hint: " in done.stderr
    rows = Store(desk.home).runs()
    assert [row.state.value for row in rows] == ["failed"]
    map_ = json.loads(desk.run("racks", "-i", "fleet.yaml", "-o", "json").stdout)
    assert {node["state"] for rack in map_["racks"] for node in rack["nodes"]} == {"free"}


def test_a_secret_survives_the_second_placement(desk: Desk) -> None:
    one_slice(desk)
    task = (desk.folder / "task.yaml").read_text()
    (desk.folder / "task.yaml").write_text(task + "secrets: {TOKEN: null}\n")
    desk.env["TOKEN"] = "hush"
    hold(desk, "r1-n1", "r1-n2")
    done = desk.up("--secret", "TOKEN")
    assert done.returncode == 0, done.stderr
    assert "hush" not in done.stderr
