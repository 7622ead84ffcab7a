"""`inventory discover` and `check` on machines whose drivers tell where they are."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from tests.rig import Rig

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with Rig(2, 2, nvidia=True, python=sys.executable, name="whereabouts") as made:
        yield made


@pytest.fixture
def unsorted(rig: Rig, tmp_path: Path) -> Path:
    """An inventory of the rig's hosts that says nothing of racks, as one made from a hostfile does."""
    hosts = [host for rack in rig.racks().values() for host in rack]
    entries = (f"      {host.name}: {{address: {host.address}}}   # {host.name}, bought in May\n" for host in hosts)
    login = {"user": rig.user, "identity_file": str(rig.key), "python": sys.executable}
    path = tmp_path / "inventory.yaml"
    path.write_text(
        f"# the hall\nname: hall\ndefaults: {json.dumps(login)}\nracks:\n  unsorted:\n    nodes:\n{''.join(entries)}"
    )
    return path


def run(path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "launcher.cli", "inventory", *words, "-i", str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(path.parent / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )


def test_nodes_are_sorted_by_what_their_drivers_tell(rig: Rig, unsorted: Path) -> None:
    before = unsorted.read_text()
    asked = run(unsorted, "discover")
    assert (asked.returncode, unsorted.read_text()) == (2, before), asked.stderr
    assert f"+  '{rig['r01-n01'].hardware.chassis}':" in asked.stdout
    done = run(unsorted, "discover", "-y")
    assert done.returncode == 0, done.stderr
    nodes = {str(node.name): node for node in read_inventory(unsorted).nodes}
    for rack in rig.racks().values():
        for host in rack:
            tray, node = host.hardware, nodes[host.name]
            assert (node.rack, node.tray) == (tray.chassis, tray.tray)
            assert node.domain == f"{tray.cluster_uuid}.{tray.clique}"
            assert f"# {host.name}, bought in May" in unsorted.read_text()
    assert "# the hall" in unsorted.read_text()
    again = run(unsorted, "discover")
    assert (again.returncode, again.stdout) == (0, "")
    checked = run(unsorted, "check")
    assert (checked.returncode, checked.stdout) == (0, "4 nodes checked, 0 differences\n")


def test_check_tells_a_moved_node_and_a_silent_one_apart(rig: Rig, unsorted: Path) -> None:
    assert run(unsorted, "discover", "-y").returncode == 0
    moved, silent = rig["r01-n02"], rig["r02-n01"]
    well = moved.hardware
    moved.set_hardware(chassis=rig["r02-n02"].hardware.chassis, cluster_uuid=rig["r02-n02"].hardware.cluster_uuid)
    silent.power_cut()
    try:
        told = run(unsorted, "check", "-o", "json")
        found = json.loads(told.stdout)
        assert told.returncode == 4
        assert {one["nodes"] for one in found["differs"]} == {"r01-n02", "racks"}
        assert [one["node"] for one in found["nodes"] if one["cannot_tell"]] == ["r02-n01"]
    finally:
        silent.boot()
        moved.hardware = well


@pytest.mark.parametrize("command", ["discover", "check"])
def test_where_nobody_answers_it_is_an_error_and_nothing_changes(tmp_path: Path, command: str) -> None:
    path = tmp_path / "inventory.yaml"
    text = "name: h\nracks:\n  r1: {nodes: {n1: {address: 127.0.0.1, port: 1}}}\n"
    path.write_text(text)
    done = run(path, command)
    assert done.returncode == 4
    assert "no node reported its location" in done.stderr
    assert "n1: " in done.stderr
    assert path.read_text() == text
