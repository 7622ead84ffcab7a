"""What a controller does once its run has ended."""

import sqlite3
import sys
import time
from pathlib import Path

import pytest

from launcher.core.model.run import RunName, RunState
from launcher.drive.successors import start_due
from launcher.store import run_files
from launcher.store.chains import NewEntry
from launcher.store.home import FILE
from launcher.store.owner import Owner
from launcher.store.store import Store
from tests.unit.store.test_store import a_fleet, a_task


def test_each_run_that_comes_after_one_is_given_a_controller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(tmp_path)

    def entry(name: str) -> NewEntry:
        return NewEntry(name=RunName(name), task=a_task(2), fleet=a_fleet(4), source="t.yaml")

    (first,) = store.chains.put([entry("a")], at=time.time())
    after = [store.chains.put([entry(name)], at=time.time(), after=first.id)[0].id for name in ("b", "c")]
    monkeypatch.setattr(sys, "executable", "/bin/false")  # none of them can start
    said: list[str] = []
    for run in (first.id, *after[:1]):
        run_files.mark_whole(tmp_path, run)
    assert start_due(store, said.append) == ()
    assert said == []  # the first has not ended
    assert store.chains.early() == {*after}
    store.finish(first.id, RunState.SUCCEEDED, time.time())
    start_due(store, said.append)
    assert [run for run in after if any(run in line for line in said)] == after[:1]  # the other is still being stored
    run_files.mark_whole(tmp_path, after[1])
    odd = store.chains.put([entry("odd")], at=time.time(), after=first.id)[0].id
    with sqlite3.connect(tmp_path / FILE) as db:
        db.execute("UPDATE runs SET run = '{}' WHERE id = ?", (odd,))  # of another release: it hides no other
    store.owners.take(after[0], Owner.current())
    store.owners.release(after[0])  # whoever drove it stopped on purpose
    said.clear()
    start_due(store, said.append)
    assert [run for run in after if any(run in line for line in said)] == after[1:]
