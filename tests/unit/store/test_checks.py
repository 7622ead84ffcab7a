"""What is stored of checks: results, times out of service, and checks under way."""

import time
from pathlib import Path

import pytest

from launcher.core.checks.results import CheckedNode, NodeVerdict
from launcher.core.model.checks import CheckStage, NodeCheck
from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName
from launcher.errors import ConflictError
from launcher.store.checks.history import KEPT, KEPT_S
from launcher.store.evidence.incidents import IncidentKind
from launcher.store.store import Store
from tests.unit.admission.checks_fleet import fleet

CHECK = NodeCheck(script="check")
A, B = NodeName("r1-n1"), NodeName("r1-n2")
RACK = RackName("r1")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def _add(store: Store, node: NodeName, at: float, number: float | None = 1.0, *, check: NodeCheck = CHECK) -> None:
    verdict = NodeVerdict.BAD if number is None else NodeVerdict.GOOD
    one = CheckedNode(node=node, verdict=verdict, number=number, message="x" * 5000)
    store.checks.history.add("hall", CheckStage.PERIODIC_IDLE.value, check, [(one, RACK)], 1, at)


def test_numbers_are_kept_by_script_and_node(store: Store) -> None:
    _add(store, A, 100.0, 5.0)
    _add(store, B, 200.0, None)
    _add(store, A, 200.0, 7.0, check=NodeCheck(script="another"))
    history = store.checks.history
    assert [(one.node, one.number, one.rack, one.size) for one in history.measurements("hall", CHECK, 0.0)] == [
        (A, 5.0, RACK, 1)
    ]
    assert history.measurements("hall", CHECK, 150.0) == ()
    assert history.passed("hall", CHECK, 0.0) == {A}
    assert history.last("hall", CheckStage.PERIODIC_IDLE, 200.0) == {A: 200.0, B: 200.0}
    assert history.last("hall", CheckStage.PERIODIC_IDLE, 199.0) == {A: 100.0}  # the clock was ahead
    assert [(one.verdict, len(one.message)) for one in history.of_node("hall", B)] == [(NodeVerdict.BAD, 1000)]


def test_old_results_and_all_but_the_newest_of_a_node_are_dropped(store: Store) -> None:
    _add(store, A, 0.0)
    for at in range(KEPT + 5):
        _add(store, A, KEPT_S + 1.0 + at)
    found = store.checks.history.of_node("hall", A)
    assert (len(found), found[0].at) == (KEPT, KEPT_S + 1.0 + 5)


def test_a_quarantine_that_ends_is_an_outage_and_one_soon_after_a_relapse(store: Store) -> None:
    ledger, history = store.ledger, store.checks.history
    ledger.add_check("hall", A, "failed", (), 100.0, quarantine=True)
    ledger.add_check("hall", A, "failed again", (), 110.0, quarantine=True)
    assert [one.message for one in ledger.quarantines("hall")] == ["failed"]
    assert ledger.readmit("hall", A, by="me", at=200.0)
    assert not ledger.readmit("hall", A, by="me", at=201.0)
    ledger.add_check("hall", A, "failed", (), 300.0, quarantine=True)
    assert [(one.since, one.back) for one in history.outages("hall", A)] == [(100.0, 200.0), (300.0, None)]
    assert history.relapses("hall", A) == 1
    assert not history.may_return("hall", A, 300.0 + 3599.0).now
    assert history.may_return("hall", A, 300.0 + 3600.0).now
    assert {one.kind for one in ledger.incidents("hall")} == {IncidentKind.CHECK}


def test_a_failed_node_is_kept_out_until_its_check_or_the_end_of_its_time_out(store: Store) -> None:
    store.ledger.add_check("hall", A, "failed", (), 100.0, quarantine=True)
    history, checked, plain = store.checks.history, fleet(), fleet()
    plain = type(plain)(name=plain.name, transport=plain.transport, nodes=plain.nodes)
    assert history.kept_out(checked, [A, B], 101.0) == {A}
    assert history.kept_out(plain, [A, B], 101.0) == frozenset()
    assert history.kept_out(checked, [], 101.0) == frozenset()
    store.ledger.readmit("hall", A, by="me", at=200.0)
    store.ledger.add_check("hall", A, "failed", (), 300.0, quarantine=True)
    assert history.kept_out(plain, [A, B], 301.0) == {A}
    assert history.kept_out(plain, [A, B], 300.0 + 3600.0) == frozenset()


def test_nodes_that_came_back_within_a_day_are_marked_and_still_free(store: Store) -> None:
    now = time.time()
    for node, back in ((A, now - 90_000.0), (B, now - 80_000.0)):
        store.ledger.add_check("hall", node, "failed", (), back - 10.0, quarantine=True)
        store.ledger.readmit("hall", node, by="me", at=back)
    found = store.unavailable(fleet())
    assert {name for name, use in found.items() if use.returned} == {B}
    assert found[B].free


def test_a_node_of_a_check_is_in_use_until_its_end_and_no_other_check_gets_it(store: Store, tmp_path: Path) -> None:
    running = store.checks.running
    running.begin("hall", [A], "before_return")
    assert store.unavailable(fleet())[A].used_by == "check before_return"
    with pytest.raises(ConflictError, match="r1-n1: in use by check `before_return`"):
        Store(tmp_path).checks.running.begin("hall", [B, A], "by hand")
    assert B not in store.unavailable(fleet())
    before = store.queue.number()
    running.end("hall", [A])
    assert A not in store.unavailable(fleet())
    assert store.queue.number() > before  # a queued run looks again


def test_an_idle_check_leaves_its_node_free_and_is_told_to_end(store: Store) -> None:
    running = store.checks.running
    assert not running.stop_idle("hall")
    running.begin("hall", [A], "periodic_idle", idle=True)
    assert A not in store.unavailable(fleet())
    assert not running.wanted("hall", [A])
    assert running.stop_idle("hall")
    assert running.wanted("hall", [A])
    assert not running.wanted("hall", [B])


def test_the_check_of_a_dead_process_holds_nothing(store: Store) -> None:
    store.checks.running.begin("hall", [A], "by hand")
    with store._db.write() as db:
        db.execute("UPDATE running_checks SET started = started - 1")
    assert A not in store.unavailable(fleet())
    store.checks.running.begin("hall", [A], "by hand")
