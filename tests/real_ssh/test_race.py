"""Two people who want the same rack at the same moment, each from a home of their own, on real hosts."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.desk import AMPLE_S, Desk
from tests.rig import Rig

TASK = """
name: {name}
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: 2{where}}}
stop_grace: 1
setup: sleep 600
run: "true"
"""
ONE_RACK = ", racks: [r01]"
ROUNDS = 3


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """Two racks of two hosts: one for each of the two."""
    with Rig(2, 2, python=sys.executable, name="race") as made:
        yield made


@pytest.fixture
def desks(rig: Rig, tmp_path: Path) -> Iterator[tuple[Desk, Desk]]:
    made = []
    for name in ("anna", "bert"):
        folder = tmp_path / name
        (folder / ".ssh").mkdir(parents=True)
        made.append(Desk(folder, rig.inventory(), HOME=str(folder), LOGNAME=name))
    yield made[0], made[1]
    for desk in made:
        desk.run("down", "--all", "-y")


def race(desks: tuple[Desk, Desk], name: str, where: str) -> list[tuple[int, str]]:
    """Both start at once; exit code and narration of each."""
    begun = []
    for desk in desks:
        task = desk.task(name, TASK.format(name=f"{name}-{desk.folder.name}", where=where))
        begun.append(desk.begin("up", str(task), "-y", "-d", "-i", str(desk.inventory)))
    return [(process.returncode, err) for process in begun for _, err in [ended(process)]]


def ended(process: "subprocess.Popen[str]") -> tuple[str, str]:
    out, err = process.communicate(timeout=AMPLE_S)
    return out, err


@pytest.mark.parametrize("at", range(ROUNDS))
def test_one_gets_the_rack_and_the_other_takes_the_other_rack(desks: tuple[Desk, Desk], at: int) -> None:
    name = f"two{at}"
    told = race(desks, name, "")
    assert [code for code, _ in told] == [0, 0], told
    racks = []
    for desk in desks:
        seen = desk.status(f"{name}-{desk.folder.name}")
        assert seen["state"] == "starting", desk.run("events", seen["name"]).stdout
        racks.append({rank["rack"] for rank in seen["ranks"]})
    assert sorted(map(sorted, racks)) == [["r01"], ["r02"]]
    # Placed alike, one of them had to give way: it says for whom.
    (loser,) = (err for desk, (_, err) in zip(desks, told, strict=True) if {"r02"} == racks[desks.index(desk)])
    winner = desks[racks.index({"r01"})].folder.name
    assert f"held by run `{name}-{winner}` (" in loser
    assert " since 20" in loser


@pytest.mark.parametrize("at", range(ROUNDS))
def test_where_there_is_one_rack_exactly_one_gets_it_and_the_other_is_told_whose_it_is(
    desks: tuple[Desk, Desk], at: int
) -> None:
    name = f"one{at}"
    told = race(desks, name, ONE_RACK)
    assert sorted(code for code, _ in told) == [0, 6], told
    winner = desks[[code for code, _ in told].index(0)]
    loser = next(err for code, err in told if code == 6)
    assert f"held by run `{name}-{winner.folder.name}` (" in loser
    assert winner.status(f"{name}-{winner.folder.name}")["state"] == "starting"
