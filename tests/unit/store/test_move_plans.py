"""Reservations of plans: nobody else gets the nodes, a dead plan blocks nobody, a recovery takes what it needs."""

import json
import sqlite3
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable
from launcher.core.model.run import Run, RunName
from launcher.errors import ConflictError, LaunchError, NoCapacityError
from launcher.store import database
from launcher.store.ledger import UNREADY_S
from launcher.store.move_plans import LEASE_S
from launcher.store.owner import Owner
from launcher.store.store import Store
from launcher.store.stored_plan import PlanState, StoredPlan, StoredStep, fresh_plan_id
from launcher.store.user import User
from tests.unit.store.test_store import a_fleet, launch

GONE = replace(Owner.current(), started=1)
"""A process that has ended."""


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "home")


def nodes(*numbers: int) -> tuple[NodeName, ...]:
    return tuple(NodeName(f"r1-n{number:02}") for number in numbers)


def begin(store: Store, kept: Mapping[NodeName, str], *, why: str | None = None, **changes: object) -> StoredPlan:
    now = time.time()
    plan = StoredPlan(
        id=fresh_plan_id(),
        fleet="hall",
        beneficiary=RunName("big"),
        user=User(name="ann", host="desk"),
        created=now,
        expires=now + LEASE_S,
        state=PlanState.ACTIVE,
        message="",
        spent=0.0,
        steps=(),
        owner=Owner.current(),
    )
    plan = replace(plan, **changes)
    names = {node: RunName(name) for node, name in kept.items()}
    store.move_plans.begin(plan, names, lambda: store.unavailable(a_fleet(4)), lambda _: why)
    return plan


def users(store: Store) -> dict[str, str | None]:
    return {name: use.used_by for name, use in store.unavailable(a_fleet(4)).items()}


def with_spare(node: NodeName):
    """Return a function for `allot` that gives the slice of a run one more node."""

    def allot(run: Run, record: object, unavailable: object) -> Run:
        part = replace(run.placement.slices[0], spares=(node,))
        return replace(run, placement=Placement(slices=(part,)))

    return allot


def test_reserved_nodes_are_free_to_nobody_else(store: Store) -> None:
    begin(store, dict.fromkeys(nodes(0, 1, 2), "big"))
    with pytest.raises(NoCapacityError):
        launch(store, nodes=2)
    assert users(store) == dict.fromkeys(nodes(0, 1, 2), "big")


def test_a_node_is_its_run_s_until_it_is_released_and_then_the_plan_s(store: Store) -> None:
    run = launch(store, nodes=2)
    begin(store, dict.fromkeys(nodes(0, 1), "big"))
    assert users(store) == dict.fromkeys(nodes(0, 1), "job")
    store.finish(run.id, store.find("job").state.FAILED, 2.0)
    assert users(store) == dict.fromkeys(nodes(0, 1), "big")


def test_a_reserved_node_is_told_apart_from_one_that_a_run_of_that_name_has(store: Store) -> None:
    launch(store, nodes=2)
    begin(store, dict.fromkeys(nodes(1, 2), "job"))
    kept = Unavailable(used_by="job", reserved_for="job")
    assert store.unavailable(a_fleet(4)) == {
        **dict.fromkeys(nodes(0, 1), Unavailable(used_by="job")),
        **dict.fromkeys(nodes(2), kept),
    }


def test_a_plan_without_a_sign_of_life_blocks_nobody(store: Store) -> None:
    begin(store, dict.fromkeys(nodes(0, 1, 2), "big"), expires=time.time() - 1.0)
    assert users(store) == {}
    launch(store, nodes=3)


def test_one_plan_at_a_time_and_a_dead_one_makes_way(store: Store) -> None:
    first = begin(store, dict.fromkeys(nodes(0), "big"), owner=GONE)
    second = begin(store, dict.fromkeys(nodes(1), "big"))
    assert users(store) == dict.fromkeys(nodes(1), "big")
    assert store.move_plans.load(first.id).state is PlanState.CANCELLED
    with pytest.raises(ConflictError, match=f"`{second.id}` moves slices of `hall`"):
        begin(store, dict.fromkeys(nodes(2), "big"))


def test_only_a_plan_that_is_carried_out_is_in_the_way_of_another(store: Store) -> None:
    plan = begin(store, dict.fromkeys(nodes(0), "big"))
    store.move_plans.check_idle("annex", time.time())
    with pytest.raises(ConflictError, match=f"`{plan.id}` moves slices of `hall`"):
        store.move_plans.check_idle("hall", time.time())
    store.move_plans.check_idle("hall", time.time() + LEASE_S + 1.0)
    store.move_plans.end(plan.id, PlanState.KEPT, "1 step done", time.time())
    store.move_plans.check_idle("hall", time.time())


def test_a_plan_that_does_not_hold_any_more_reserves_nothing(store: Store) -> None:
    with pytest.raises(LaunchError, match="nothing was moved: r1-n01 is not free any more"):
        begin(store, dict.fromkeys(nodes(0), "big"), why="r1-n01 is not free any more")
    assert (users(store), store.move_plans.of("hall")) == ({}, ())


def test_a_run_that_needs_a_reserved_node_takes_it_and_cancels_the_plan(store: Store) -> None:
    run = launch(store, nodes=1)
    plan = begin(store, dict.fromkeys(nodes(1, 2), "big"))
    store.allot(run.id, with_spare(nodes(1)[0]))
    assert users(store) == dict.fromkeys(nodes(0, 1), "job")
    ended = store.move_plans.load(plan.id)
    assert (ended.state, ended.message) == (PlanState.CANCELLED, "`job` needed r1-n01 to recover")
    assert not store.move_plans.renew(plan.id, time.time())


def test_a_moved_run_uses_up_its_own_reservation(store: Store) -> None:
    run = launch(store, nodes=1)
    plan = begin(store, {nodes(1)[0]: "job", nodes(2)[0]: "big"})
    store.allot(run.id, with_spare(nodes(1)[0]))
    assert store.move_plans.load(plan.id).state is PlanState.ACTIVE
    assert store.move_plans.reserved("hall").keys() == {nodes(2)[0]}


def test_freed_room_is_kept_for_its_run_alone(store: Store) -> None:
    plan = begin(store, {nodes(0)[0]: "job", nodes(1)[0]: "big"})
    store.move_plans.end(plan.id, PlanState.KEPT, "1 step done", time.time())
    assert users(store) == dict.fromkeys(nodes(1), "big")
    fleet = a_fleet(4)
    launch(store, "big", nodes=1, fleet_nodes=4)
    assert store.move_plans.reserved(fleet.name) == {}
    assert store.move_plans.load(plan.id).state is PlanState.DONE


def test_a_new_plan_for_the_same_run_replaces_the_room_that_is_kept_for_it(store: Store) -> None:
    first = begin(store, dict.fromkeys(nodes(0, 1), "big"))
    other = begin_kept(store, first, dict.fromkeys(nodes(3), "else"), beneficiary=RunName("else"))
    second = begin_kept(store, other, dict.fromkeys(nodes(1, 2), "big"))
    ended = store.move_plans.load(first.id)
    assert (ended.state, ended.message) == (PlanState.DONE, f"replaced by {second.id}")
    assert users(store) == {**dict.fromkeys(nodes(1, 2), "big"), nodes(3)[0]: "else"}


def begin_kept(store: Store, before: StoredPlan, kept: Mapping[NodeName, str], **changes: object) -> StoredPlan:
    """Begin a plan once the moves of another are done."""
    store.move_plans.end(before.id, PlanState.KEPT, "1 step done", time.time())
    return begin(store, kept, **changes)


def test_kept_room_is_released_by_the_name_that_it_is_kept_for_and_other_plans_are_not(store: Store) -> None:
    plan = begin(store, dict.fromkeys(nodes(1), "big"))
    assert not store.move_plans.release("big", time.time()), "its moves are not done"
    store.move_plans.end(plan.id, PlanState.KEPT, "1 step done", time.time())
    assert not store.move_plans.release("other", time.time())
    assert store.move_plans.release("big", time.time())
    assert (users(store), store.move_plans.load(plan.id).state) == ({}, PlanState.DONE)


def test_a_step_that_is_asked_for_costs_and_none_of_an_ended_plan_is(store: Store) -> None:
    run = launch(store, nodes=1)
    step = StoredStep(id=run.id, run=run.name, gang="job", old=(), new=(), gpu_hours=1.5)
    plan = begin(store, {})
    assert store.move_plans.ask(plan, step, by="ann", at=time.time()) == 1
    assert store.move_plans.load(plan.id).spent == 1.5
    store.move_plans.refund(plan.id, step)
    assert store.move_plans.load(plan.id).spent == 0.0
    store.move_plans.end(plan.id, PlanState.CANCELLED, "interrupted", time.time())
    assert store.move_plans.ask(plan, step, by="ann", at=time.time()) is None


def test_a_node_that_was_not_ready_for_a_plan_is_left_out_for_an_hour(store: Store) -> None:
    run = launch(store, nodes=1)
    store.ledger.add_unready("hall", run.id, nodes(2), "defrag-a", 1000.0)
    assert store.ledger.unready("hall", 1000.0 + UNREADY_S - 1.0) == {
        nodes(2)[0]: Unavailable(unhealthy="not ready for defrag-a")
    }
    assert store.ledger.unready("hall", 1000.0 + UNREADY_S) == {}
    assert store.ledger.unready("annex", 1000.0) == {}
    assert store.ledger.unready("hall", 999.0) == {}  # the clock was ahead


def test_a_home_of_the_first_release_is_upgraded_with_its_runs(tmp_path: Path) -> None:
    now = Store(tmp_path / "now")
    run = launch(now, nodes=2)
    _write_format_6(tmp_path / "now", tmp_path / "old")
    old = Store(tmp_path / "old")
    loaded, _ = old.load(run.id)
    assert loaded == now.load(run.id)[0]
    assert (old.find("job").name, old.unavailable(a_fleet(4))) == ("job", now.unavailable(a_fleet(4)))
    plan = begin(old, dict.fromkeys(nodes(2), "big"))
    assert users(old) == {**dict.fromkeys(nodes(0, 1), "job"), nodes(2)[0]: "big"}
    before = old.queue.number()
    old.move_plans.end(plan.id, PlanState.DONE, "done", time.time())
    assert old.queue.number() > before


NEW_KEYS = ("movable", "move", "defrag")
"""What runs, records and inventories have since format 6."""


def _write_format_6(source: Path, to: Path) -> None:
    """Copy the rows of a home into one as the first release made it."""
    to.mkdir()
    first = database._STEPS[0]
    with sqlite3.connect(to / "state.db") as db:
        db.executescript(f"PRAGMA journal_mode = WAL; {first} PRAGMA user_version = 6;")
        with sqlite3.connect(source / "state.db") as new:
            for table in ("runs", "claims", "journal", "inventories"):
                for row in new.execute(f"SELECT * FROM {table}").fetchall():
                    values = [_without_new(value) for value in row]
                    db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(values))})", values)


def _without_new(value: object) -> object:
    if not isinstance(value, str) or not value.startswith("{"):
        return value
    return json.dumps(json.loads(value, object_hook=lambda one: {k: v for k, v in one.items() if k not in NEW_KEYS}))
