"""Runs that come one after the other: what waits for what, and what becomes of the rest when one fails."""

import time
from pathlib import Path

import pytest

from launcher.admission.queue.listing import list_queue
from launcher.admission.queue.wait import await_turn
from launcher.admission.store_retry import StoreRetry
from launcher.core.model.record import Outcome, Record
from launcher.core.model.run import Cause, Run, RunName, RunState
from launcher.errors import ConflictError
from launcher.store.chains import NewEntry
from launcher.store.owner import Owner
from launcher.store.store import Store
from launcher.transport.clock import SystemClock
from tests.unit.store.test_store import a_fleet, a_task


def queue_chain(store: Store, *names: str) -> tuple[Run, ...]:
    entries = [NewEntry(name=RunName(name), task=a_task(2), fleet=a_fleet(4), source="t.yaml") for name in names]
    return store.chains.put(entries, at=time.time())


def turn(store: Store, run: Run) -> RunState:
    """What becomes of a queued run at its next evaluation; it asks no nodes."""

    def open_prober(fleet: object) -> object:
        raise AssertionError("its nodes are asked")

    checks = iter((False, True, True))
    return await_turn(
        store,
        run.id,
        SystemClock(),
        open_prober,  # type: ignore[arg-type]
        lambda: next(checks),
        StoreRetry(lambda _: None),
    )


def end(store: Store, run: Run, state: RunState, cause: Cause) -> None:
    outcome = Outcome(cause=cause, message="x")
    store.intend(run.id, Record(outcome=outcome), (), "x", state, time.time())
    store.finish(run.id, state, time.time())


def test_a_run_has_no_place_in_the_queue_until_the_one_before_it_has_succeeded(tmp_path: Path) -> None:
    store = Store(tmp_path)
    first, second, third = queue_chain(store, "a", "b", "c")
    for run in (first, second, third):
        store.owners.take(run.id, Owner.current())
    assert [one.name for one in store.queue.state("hall", time.time()).waiting] == ["a"]
    assert [(one.name, one.position, one.reason) for one in list_queue(store).runs[1:]] == [
        ("b", None, "waits until `a` has succeeded"),
        ("c", None, "waits until `b` has succeeded"),
    ]
    assert turn(store, second) is RunState.QUEUED
    end(store, first, RunState.SUCCEEDED, Cause.SUCCESS)
    assert [one.name for one in store.queue.state("hall", time.time()).waiting] == ["b"]
    with pytest.raises(AssertionError, match="its nodes are asked"):
        turn(store, second)


@pytest.mark.parametrize(
    ("state", "cause"), [(RunState.FAILED, Cause.PROGRAM), (RunState.STOPPED, Cause.STOPPED)], ids=["failed", "down"]
)
def test_the_rest_of_a_chain_ends_with_the_run_that_did_not_succeed(
    state: RunState, cause: Cause, tmp_path: Path
) -> None:
    store = Store(tmp_path)
    first, second, third = queue_chain(store, "a", "b", "c")
    end(store, first, state, cause)
    assert turn(store, second) is RunState.STOPPED
    assert turn(store, third) is RunState.STOPPED
    told = [store.find(run.id).status_message for run in (second, third)]
    assert told == [f"not started: `a` did not succeed ({state.value})", "not started: `b` did not succeed (stopped)"]


def test_a_chain_is_stored_whole_or_not_at_all(tmp_path: Path) -> None:
    store = Store(tmp_path)
    queue_chain(store, "b")
    with pytest.raises(ConflictError, match="`b`"):
        queue_chain(store, "a", "b")
    assert [row.name for row in store.runs()] == ["b"]
