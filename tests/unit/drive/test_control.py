"""What a controller does once its run has ended."""

import sys
import time
from pathlib import Path

import pytest

from launcher.core.model.run import RunName
from launcher.drive.control import start_dependents
from launcher.store.chains import NewEntry
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
    start_dependents(store, first.id, said.append)
    assert [run for run in after if any(run in line for line in said)] == after
