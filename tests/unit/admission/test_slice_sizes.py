"""Advice on sizes for an inventory whose own incidents give the rate of faults."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.admission.context import AdmissionContext
from launcher.admission.observed_faults import observed_faults
from launcher.admission.slice_sizes import SizeReport, SizeRequest, size_slices
from launcher.config.inventory.read import read_inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, UnavailableNodes
from launcher.core.model.record import Evidence
from launcher.core.model.run import Cause, Run, RunName, RunState
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.adapters import open_prober
from launcher.errors import SpecError
from launcher.store.database import FILE
from launcher.store.store import Store

DAY = 86_400.0
HALL = """
name: hall
racks:
  r1: {domain: a, nodes: "r1-n[01-18]"}
  r2: {domain: b, nodes: "r2-n[01-18]"}
"""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    (tmp_path / "hall.yaml").write_text(HALL)
    return Store(tmp_path)


def launch(store: Store, name: str, nodes: int, at: float) -> Run:
    rule = TopologyRule(nodes_per_slice=nodes)
    task = Task(name=name, groups=(Group(name="main", topology=rule, gpus=4, run="true"),))
    fleet = read_inventory(store.home / "hall.yaml")

    def decide(unavailable: UnavailableNodes) -> Placement:
        found = place(task, fleet, unavailable)
        assert isinstance(found, Placement)
        return found

    return store.launch(name=RunName(name), task=task, fleet=fleet, decide=decide, source="task.yaml", at=at)


def fail(store: Store, run: Run, *nodes: str, cause: Cause = Cause.NODE) -> None:
    record = store.load(run.id)[1]
    evidence = Evidence(cause=cause, message="power lost")
    failed = {**record.failed_nodes, **{NodeName(node): evidence for node in nodes}}
    store.intend(run.id, replace(record, failed_nodes=failed), (), "running", RunState.RUNNING, at=DAY)


def ask(store: Store, **changes: object) -> SizeReport:
    request = SizeRequest(
        task=None,
        gpus=64,
        inventory=str(store.home / "hall.yaml"),
        imaginary=None,
        rate="incidents",
        write_s=10,
        restart_s=30,
        requeue_s=300,
        least_gpus=None,
    )
    context = AdmissionContext(store=store, open_prober=lambda fleet: open_prober(store.home, fleet))
    return size_slices(context, replace(request, **changes))  # type: ignore[arg-type]


def test_incidents_count_against_the_time_that_runs_had_the_nodes(store: Store) -> None:
    first = launch(store, "first", 16, at=0.0)
    fail(store, first, "r1-n01", "r1-n02")
    store.finish(first.id, RunState.STOPPED, at=10 * DAY)
    second = launch(store, "second", 4, at=10 * DAY)
    fail(store, second, "r2-n01", cause=Cause.LEASE_HELD)
    found = observed_faults(store, "hall", now=30 * DAY)
    assert found.incidents == 2
    assert found.gpu_days == pytest.approx(4 * (16 * 10 + 4 * 20))
    assert observed_faults(store, "other", now=30 * DAY).gpu_days == 0


def test_runs_of_other_versions_do_not_count(store: Store) -> None:
    run = launch(store, "run", 16, at=0.0)
    fail(store, run, "r1-n01")
    with sqlite3.connect(store.home / FILE) as db:
        db.execute("UPDATE runs SET run = '{}' WHERE id = ?", (run.id,))
    found = observed_faults(store, "hall", now=30 * DAY)
    assert (found.incidents, found.gpu_days) == (0, 0)


def test_a_rate_of_incidents_says_how_many_over_how_long(store: Store) -> None:
    run = launch(store, "run", 16, at=0.0)
    fail(store, run, *(f"r1-n{at:02}" for at in range(1, 6)))
    store.finish(run.id, RunState.STOPPED, at=100 * DAY)
    found = ask(store)
    assert found.model.rate.source == "5 incidents in 1600.0 node-days of runs"
    assert found.node_days == pytest.approx(1_600 / 5)
    assert found.observed is not None
    assert found.observed.doubtful
    assert found.days_between is not None
    soonest, latest = found.days_between
    assert soonest < found.node_days < latest


def test_too_few_incidents_are_refused(store: Store) -> None:
    run = launch(store, "run", 16, at=0.0)
    fail(store, run, "r1-n01")
    store.finish(run.id, RunState.STOPPED, at=DAY)
    with pytest.raises(SpecError, match=r"1 incident in 16\.0 node-days of runs give no rate of faults"):
        ask(store)


def test_a_published_rate_needs_no_incidents(store: Store) -> None:
    found = ask(store, rate="rsc-1")
    assert found.observed is None
    assert found.days_between is None
    assert found.inventory == "hall"
