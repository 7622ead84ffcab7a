"""Checks on hosts with a real sshd: several nodes meet at a port, a slow one is found, and nothing is left."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.admission.checks.returns import check_return, due_returns
from launcher.config.inventory.read import read_inventory
from launcher.core.model.nodeset import NodeName
from launcher.drive.adapters import open_checker
from launcher.store.store import Store
from tests.all_reduce import all_reduce
from tests.desk import Desk
from tests.rig import Rig

SLOW = NodeName("r01-n03")
MARK = "/var/tmp/slow"

ALL_REDUCE = all_reduce(f'os.path.exists("{MARK}")')

CHECKS = """
checks:
  before_return: {script: all_reduce.py, scope: slice, time_limit: 60s}
  before_start: {run: "echo begun >&2; sleep 611", time_limit: 10m}
"""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of eight hosts, one of them slow."""
    with Rig(1, 8, name="checks") as made:
        made[SLOW].run(["touch", MARK])
        yield made


@pytest.fixture
def desk(rig: Rig, tmp_path: Path) -> Desk:
    (tmp_path / ".ssh").mkdir()
    (tmp_path / "all_reduce.py").write_text(ALL_REDUCE)
    return Desk(tmp_path, rig.inventory() + CHECKS, HOME=str(tmp_path))


def sleepers(rig: Rig) -> list[str]:
    found = [host.run(["pgrep", "-f", "sleep 611"], check=False).stdout.split() for host in rig.hosts.values()]
    return [pid for pids in found for pid in pids]


def until(rig: Rig, what: str, *, some: bool) -> None:
    deadline = time.monotonic() + 60
    while bool(sleepers(rig)) is not some:
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


def test_the_slow_node_of_a_rack_is_found_by_tests_of_several_nodes(desk: Desk) -> None:
    ended = desk.run("check", "-i", str(desk.inventory), "-o", "json")
    assert ended.returncode == 4, ended.stderr
    said = json.loads(ended.stdout)
    assert [(one["part"], one["nodes"]) for one in said["found"]] == [("node", [SLOW])]
    assert {one["node"]: one["result"] for one in said["nodes"]}[SLOW] == "suspect"
    assert sum(one["result"] == "good" for one in said["nodes"]) == 7
    assert len(said["tests"]) <= 9


def test_a_quarantined_node_comes_back_only_after_its_check_with_idle_partners(desk: Desk, rig: Rig) -> None:
    store, fleet = Store(desk.home), read_inventory(desk.inventory)
    name, now = NodeName("r01-n05"), time.time()
    rig[name].run(["touch", MARK])
    rig[SLOW].run(["rm", MARK])
    store.ledger.add_check(fleet.name, name, "failed", (), now - 60.0, quarantine=True)
    checker = open_checker(desk.home, fleet)
    try:
        assert due_returns(store, fleet, now) == {name: 0}
        first = check_return(store, fleet, name, 0, checker, lambda: False)
        assert first is not None
        assert not first.decision.now
        assert "50 with the good node" in first.decision.reason
        assert due_returns(store, fleet, time.time()) == {}
        rig[name].run(["rm", MARK])
        second = check_return(store, fleet, name, 1, checker, lambda: False)
        assert second is not None
        assert second.decision.now
        assert second.decision.reason == "passed `before_return` (100)"
    finally:
        checker.close()
        rig[SLOW].run(["touch", MARK])
    assert store.ledger.quarantines(fleet.name) == ()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["ctrl-c", "kill -9"])
def test_nothing_of_a_check_is_left_once_its_command_is_gone(desk: Desk, rig: Rig, number: signal.Signals) -> None:
    words = ("check", "--check", "before_start", "-i", str(desk.inventory), "r01-n[01-04]")
    with desk.begin(*words) as process:
        until(rig, "the check never began", some=True)
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    until(rig, f"a process of the check is left: {err}", some=False)
    assert process.returncode == (130 if number is signal.SIGINT else -signal.SIGKILL), err
    again = desk.run("check", "-i", str(desk.inventory), "r01-n[05-08]")  # no lease is left either
    assert again.returncode == 0, again.stderr
