"""Checks by hand, before a start, before a return and of idle nodes, on imaginary nodes."""

import time
from pathlib import Path

import pytest

from launcher.admission.checked_placement import checked
from launcher.admission.checks.before_start import StartCheck
from launcher.admission.checks.by_hand import plan_check, run_check
from launcher.admission.checks.execution import CheckReport
from launcher.admission.checks.idle import IdleRack, check_idle, next_rack
from launcher.admission.checks.returns import check_return, due_returns
from launcher.admission.context import AdmissionContext
from launcher.admission.listener import NodesPassed, Notice, SilentListener, StartCheckBegun
from launcher.admission.preflight import Preflight
from launcher.admission.request import Request
from launcher.core.checks.group_tests import FaultyPart
from launcher.core.checks.results import CheckGroup
from launcher.core.model.checks import CheckStage
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.placement import Placement, Shortfall, UnavailableNodes
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.adapters import open_prober
from launcher.errors import ConflictError, NoCapacityError, ProvisionError, SpecError
from launcher.store.store import Store
from tests.unit.admission.checks_fleet import Checker, fleet

HALL = fleet()


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def names(text: str) -> tuple[NodeName, ...]:
    return tuple(map(NodeName, expand(text)))


def task(nodes: int, name: str = "ours") -> Task:
    return Task(name=name, groups=(Group(name="main", topology=TopologyRule(nodes_per_slice=nodes), gpus=4),))


def launch(store: Store, hall: Inventory, count: int, name: str = "other") -> None:
    def decide(taken: UnavailableNodes) -> Placement | Shortfall:
        return place(task(count, name), hall, taken)

    store.launch(name=RunName(name), task=task(count, name), fleet=hall, decide=decide, source="", at=0.0)


# By hand.


def by_hand(store: Store, hall: Inventory, checker: Checker, words: str, *, size: int | None = None) -> CheckReport:
    planned = plan_check(store, hall, names(words), stage=CheckStage.BEFORE_RETURN, slice_size=size)
    return run_check(store, hall, planned, checker, by="me", stopped=lambda: False, tell=lambda _: None)


def test_a_check_by_hand_names_bad_nodes_and_those_without_an_answer(store: Store) -> None:
    found = by_hand(store, HALL, Checker(bad={"r1-n2"}, silent={"r1-n3"}), "r1-n[1-4]")
    assert [one.verdict.value for one in found.results] == ["good", "bad", "cannot-tell", "good"]
    assert not found.all_good
    assert store.ledger.quarantines("hall") == ()  # an operator decides


def test_a_slice_size_finds_the_slow_node_of_a_slice(store: Store) -> None:
    found = by_hand(store, HALL, Checker(slow={"r1-n6"}), "r[1-2]-n[1-8]", size=4)
    assert [(one.part, one.nodes) for one in found.found] == [(FaultyPart.NODE, ("r1-n6",))]
    assert {one.node: one.verdict.value for one in found.results}["r1-n6"] == "suspect"
    assert sum(one.verdict.value == "good" for one in found.results) == 15


def test_a_node_that_makes_each_group_hang_is_found_like_a_slow_one(store: Store) -> None:
    found = by_hand(store, HALL, Checker(late={"r2-n3"}), "r[1-2]-n[1-8]", size=8)
    assert [(one.part, one.nodes) for one in found.found] == [(FaultyPart.NODE, ("r2-n3",))]
    assert {one.node: one.verdict.value for one in found.results}["r2-n3"] == "bad"


def test_a_check_that_cannot_tell_anything_is_not_a_good_one(store: Store) -> None:
    assert not by_hand(store, HALL, Checker(silent={"r1-n1", "r1-n2"}), "r1-n[1-2]").all_good
    assert by_hand(store, HALL, Checker(), "r1-n[1-2]").all_good


def test_what_a_group_has_said_that_fails_everywhere_is_kept(store: Store) -> None:
    found = by_hand(store, HALL, Checker(bad={"r1-n1", "r1-n2", "r1-n3"}), "r1-n[1-3]", size=3)
    assert [one.part for one in found.found] == [FaultyPart.UNCLEAR]
    assert {one.tail for one in found.results} == {("Xid 79",)}
    assert {one.message.rpartition(": ")[2] for one in found.results} == {"exit status 1"}


def test_all_nodes_of_a_group_get_its_worst_number(store: Store) -> None:
    by_hand(store, HALL, Checker(slow={"r1-n1"}), "r1-n[1-2]", size=2)
    hall_check = HALL.checks.before_return
    assert hall_check is not None
    from dataclasses import replace

    from launcher.core.model.checks import CheckScope

    kept = store.checks.history.measurements("hall", replace(hall_check, on=CheckScope.SLICE), 0.0)
    assert {(one.node, one.number, one.size) for one in kept} == {("r1-n1", 50.0, 2), ("r1-n2", 50.0, 2)}


def test_nodes_in_use_are_left_out_and_a_check_of_none_is_refused(store: Store) -> None:
    launch(store, HALL, 2)
    planned = plan_check(store, HALL, names("r1-n[1-4]"), stage=None, slice_size=None)
    assert (planned.name, planned.nodes, planned.busy) == ("before_return", names("r1-n[3-4]"), names("r1-n[1-2]"))
    with pytest.raises(ConflictError, match="in use by other"):
        plan_check(store, HALL, names("r1-n[1-2]"), stage=None, slice_size=None)


def test_no_run_is_placed_on_nodes_while_they_are_checked(store: Store) -> None:
    def meanwhile(group: CheckGroup) -> None:
        del group
        assert place(task(8), HALL, store.unavailable(HALL)) != place(task(8), HALL, {})

    by_hand(store, HALL, Checker(meanwhile=meanwhile), "r1-n[1-4]")
    assert place(task(8), HALL, store.unavailable(HALL)) == place(task(8), HALL, {})


def test_an_inventory_without_the_check_is_refused_unless_it_is_imaginary(store: Store) -> None:
    plain = type(HALL)(name="hall", transport=HALL.transport, nodes=HALL.nodes)
    assert plan_check(store, plain, names("r1-n[1-4]"), stage=None, slice_size=None).name == "imaginary"
    with pytest.raises(SpecError, match=r"checks\.before_start"):
        plan_check(store, plain, names("r1-n[1-4]"), stage=CheckStage.BEFORE_START, slice_size=None)


# Before a start.


class Told(SilentListener):
    def __init__(self) -> None:
        self.notices: list[Notice] = []

    def notify(self, notice: Notice) -> None:
        self.notices.append(notice)


def settle(store: Store, checker: Checker, count: int, told: Told | None = None, hall: Inventory = HALL) -> Placement:
    prober = open_prober(store.home, hall)
    flight = Preflight(task(count), hall, prober, SilentListener(), {})
    start = StartCheck(store, lambda _: checker, told or Told())
    found = start.settle(hall, flight, flight.place({}), lambda: store.unavailable(hall))
    assert isinstance(found, Placement)
    return found


def test_a_bad_node_is_replaced_quarantined_and_has_an_incident(store: Store) -> None:
    checker, told = Checker(bad={"r1-n2"}), Told()
    assert settle(store, checker, 4, told).nodes == names("r1-n1,r1-n[3-5]")
    assert [one.node for one in store.ledger.quarantines("hall")] == ["r1-n2"]
    (incident,) = store.ledger.incidents("hall")
    assert incident.message == "failed check `before_start`: exit status 1"
    assert incident.evidence == ("Xid 79",)
    assert [len(group.nodes) for group in checker.seen] == [1] * 5  # each node once
    assert [type(one) for one in told.notices] == [StartCheckBegun, NodesPassed] * 2
    assert checker.closed == 2


def test_a_node_that_cannot_tell_is_used_all_the_same(store: Store) -> None:
    assert settle(store, Checker(silent={"r1-n2"}), 4).nodes == names("r1-n[1-4]")
    assert store.ledger.incidents("hall") == ()


def test_a_check_that_fails_everywhere_blames_no_node_and_stops_the_start(store: Store) -> None:
    with pytest.raises(ProvisionError, match="fails on 8 of 8 nodes: the check itself may be wrong"):
        settle(store, Checker(bad=set(names("r[1-2]-n[1-8]"))), 8)
    assert store.ledger.quarantines("hall") == ()


def test_a_check_that_has_never_passed_skips_nodes_but_quarantines_none(store: Store) -> None:
    assert settle(store, Checker(bad={"r1-n1"}), 1).nodes == names("r1-n2")
    assert store.ledger.quarantines("hall") == ()
    assert settle(store, Checker(bad={"r1-n1"}), 1).nodes == names("r1-n2")
    assert [one.node for one in store.ledger.quarantines("hall")] == ["r1-n1"]  # it has passed on another by now


def test_a_slow_node_is_replaced_once_five_others_are_known(store: Store) -> None:
    assert settle(store, Checker(slow={"r1-n2"}), 4).nodes == names("r1-n[1-4]")
    settle(store, Checker(), 8)
    found = settle(store, Checker(slow={"r1-n2"}), 4)
    assert found.nodes == names("r1-n1,r1-n[3-5]")
    assert store.ledger.quarantines("hall") == ()  # suspect, not bad
    assert [one.node for one in store.ledger.incidents("hall")] == ["r1-n2"]


def test_a_slow_node_of_a_slice_is_found_and_replaced(store: Store) -> None:
    hall = fleet("slice")
    checker = Checker(bad={"r1-n3"})
    assert settle(store, checker, 7, hall=hall).nodes == names("r1-n[1-2],r1-n[4-8]")
    assert max(len(group.nodes) for group in checker.seen) == 7


def test_the_check_ends_with_its_total_time_and_says_so(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("launcher.admission.checks.before_start.time.monotonic", lambda: clock[0])

    def takes_long(group: CheckGroup) -> None:
        del group
        clock[0] += 200.0

    with pytest.raises(ProvisionError, match="did not find enough good nodes in its time"):
        settle(store, Checker(bad={"r1-n1", "r1-n2", "r1-n3"}, meanwhile=takes_long), 1)


def test_a_start_checks_between_the_plan_and_the_claims(store: Store) -> None:
    request = Request(task=task(4), fleet=HALL, source="task.yaml", secrets={})
    checker = Checker(bad={"r1-n2"})
    context = AdmissionContext(
        store=store, open_prober=lambda one: open_prober(store.home, one), open_checker=lambda _: checker
    )
    with checked(context, request) as placement:
        assert placement.place(store.unavailable(HALL)).nodes == names("r1-n[1-4]")
        assert checker.seen == []
        found = placement.pass_check(lambda: store.unavailable(HALL))
        assert found is not None
        assert found.nodes == names("r1-n1,r1-n[3-5]")
        assert placement.decide(store.unavailable(HALL)) == found
        assert placement.pass_check(lambda: store.unavailable(HALL)) is None
    assert len(checker.seen) == 5


def test_a_task_that_fits_on_no_good_nodes_is_refused_with_the_reason(store: Store) -> None:
    request = Request(task=task(8), fleet=HALL, source="task.yaml", secrets={})
    checker = Checker(bad={"r1-n2", "r2-n2"})
    context = AdmissionContext(
        store=store, open_prober=lambda one: open_prober(store.home, one), open_checker=lambda _: checker
    )
    with checked(context, request) as placement:
        placement.place({})
        with pytest.raises(NoCapacityError) as refusal:
            placement.pass_check(dict)
    assert "check `before_start`: exit status 1" in str(refusal.value.shortfall.unhealthy)


# Before a return.


def quarantine(store: Store, node: str, at: float) -> None:
    store.ledger.add_check("hall", NodeName(node), "failed", (), at, quarantine=True)


def returned(store: Store, checker: Checker, node: str = "r1-n2", hall: Inventory = HALL) -> bool | None:
    found = check_return(store, hall, NodeName(node), 0, checker, lambda: False)
    return None if found is None else found.decision.now


def test_a_quarantined_node_comes_back_only_after_its_check(store: Store) -> None:
    quarantine(store, "r1-n2", time.time() - 60.0)
    assert due_returns(store, HALL, time.time()) == {"r1-n2": 0}
    assert returned(store, Checker(bad={"r1-n2"})) is False
    assert store.unavailable(HALL)[NodeName("r1-n2")].unhealthy
    assert due_returns(store, HALL, time.time()) == {}
    assert due_returns(store, HALL, time.time() + 600.0) == {"r1-n2": 1}
    assert returned(store, Checker(silent={"r1-n2"})) is False
    assert due_returns(store, HALL, time.time() + 100.0) == {}
    assert due_returns(store, HALL, time.time() + 120.0) == {"r1-n2": 1}  # it may have been booting
    assert returned(store, Checker()) is True
    assert store.ledger.quarantines("hall") == ()


def test_a_clock_that_was_ahead_keeps_no_node_out_and_is_no_reason_to_check_it_all_the_time(store: Store) -> None:
    now = time.time()
    quarantine(store, "r1-n2", now + 1e6)
    assert due_returns(store, HALL, now) == {"r1-n2": 0}
    assert returned(store, Checker(bad={"r1-n2"})) is False
    assert due_returns(store, HALL, time.time()) == {}
    assert due_returns(store, HALL, time.time() + 600.0) == {"r1-n2": 1}


def test_a_drained_node_and_one_in_its_time_out_are_not_checked(store: Store) -> None:
    from launcher.store.ledger import Drain

    now = time.time()
    quarantine(store, "r1-n1", now - 900.0)
    quarantine(store, "r1-n2", now - 900.0)
    store.ledger.readmit("hall", NodeName("r1-n2"), by="me", at=now - 800.0)
    quarantine(store, "r1-n2", now - 700.0)
    store.ledger.drain("hall", [NodeName("r1-n1")], Drain(node=NodeName("r1-n1"), reason="x", at=now, by="me"))
    assert due_returns(store, HALL, now) == {}
    assert due_returns(store, HALL, now + 3600.0) == {"r1-n2": 0}


def test_a_check_of_a_slice_takes_idle_good_nodes_as_partners(store: Store) -> None:
    hall = fleet("slice")
    launch(store, hall, 3)
    quarantine(store, "r1-n8", time.time() - 60.0)
    checker = Checker()
    assert returned(store, checker, "r1-n8", hall) is True
    assert {node.name for node in checker.seen[0].nodes} == set(names("r1-n[4-8]"))
    quarantine(store, "r1-n7", time.time() - 60.0)
    assert returned(store, Checker(slow={"r1-n7"}), "r1-n7", hall) is False


def test_without_a_partner_nothing_is_decided(store: Store) -> None:
    hall = fleet("pair")
    launch(store, hall, 7)
    quarantine(store, "r1-n8", time.time() - 60.0)
    assert returned(store, Checker(), "r1-n8", hall) is None


def test_a_node_that_breaks_under_load_takes_down_one_run_and_then_stays_out(store: Store) -> None:
    """Healthy in every passive sign; its check puts it under load and shows the fault."""
    start = time.time() - 50_000.0
    taken_down = 1
    quarantine(store, "r1-n2", start)
    for minute in range(60):
        for node in due_returns(store, HALL, start + 60.0 * minute):
            taken_down += returned(store, Checker(bad={"r1-n2"}), node) is True
    assert taken_down == 1


# Idle nodes.


def test_the_rack_that_has_waited_longest_is_next_and_only_its_idle_nodes(store: Store) -> None:
    launch(store, HALL, 2)
    rack = next_rack(store, HALL, time.time())
    assert rack == IdleRack(rack=HALL.nodes[2].rack, nodes=names("r1-n[3-8]"))
    checker = Checker(bad={"r1-n5"})
    found = check_idle(store, HALL, rack, checker, lambda: False)
    assert found is not None
    assert found.quarantined == {"r1-n5"}
    assert all(group.idle for group in checker.seen)
    second = next_rack(store, HALL, time.time())
    assert second is not None
    assert second.nodes == names("r2-n[1-8]")
    check_idle(store, HALL, second, Checker(), lambda: False)
    assert next_rack(store, HALL, time.time()) is None
    assert next_rack(store, HALL, time.time() + 3601.0) is not None


def test_no_idle_node_is_checked_while_a_run_is_queued(store: Store) -> None:
    store.queue.put(name=RunName("waits"), task=task(1), fleet=HALL, source="", at=0.0)
    assert next_rack(store, HALL, time.time()) is None


def test_an_idle_check_ends_and_says_nothing_once_a_run_is_placed_there(store: Store) -> None:
    rack = next_rack(store, HALL, time.time())
    assert rack is not None
    checker = Checker(bad={"r1-n5"}, meanwhile=lambda _: store.holders("hall") or launch(store, HALL, 2))
    assert check_idle(store, HALL, rack, checker, lambda: False) is None
    assert store.ledger.incidents("hall") == ()
    assert store.checks.history.last("hall", CheckStage.PERIODIC_IDLE, time.time()) == {}


def test_a_launch_ends_idle_checks_before_it_looks_at_the_nodes(store: Store) -> None:
    from launcher.admission.checks.consequences import end_idle_checks

    store.checks.running.begin("hall", names("r1-n1"), "periodic_idle", idle=True)
    waited: list[float] = []

    def wait(seconds: float) -> None:
        waited.append(seconds)
        assert store.checks.running.wanted("hall", names("r1-n1"))
        store.checks.running.end("hall", names("r1-n1"))

    end_idle_checks(store, "hall", wait)
    assert len(waited) == 1


def test_what_has_failed_in_vain_is_not_tried_again_at_once(store: Store) -> None:
    checker = Checker(bad=set(names("r[1-2]-n[1-8]")))
    prober = open_prober(store.home, HALL)
    flight = Preflight(task(8), HALL, prober, SilentListener(), {})
    start = StartCheck(store, lambda _: checker, Told())
    for _ in range(3):
        with pytest.raises(ProvisionError, match="the check itself may be wrong"):
            start.settle(HALL, flight, flight.place({}), dict)
    assert len(checker.seen) == 8


def test_ctrl_c_ends_a_check_on_the_nodes_before_the_command_ends(store: Store) -> None:
    def meanwhile(group: CheckGroup) -> None:
        if group.nodes[0].name == "r1-n1":
            raise KeyboardInterrupt

    checker = Checker(meanwhile=meanwhile)
    with pytest.raises(KeyboardInterrupt):
        settle(store, checker, 4)
    assert store.unavailable(HALL) == {}  # no reservation is left
    assert store.ledger.incidents("hall") == ()
