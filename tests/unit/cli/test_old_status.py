"""A status that is old: `status` says why, where its controller cannot store anything."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from launcher.store.owner import Owner
from launcher.store.store import Store
from tests.unit.store.test_store import a_status, launch

ROOT = Path(__file__).parents[3]
FULL = "ulimit -f 0; exec "
"""For a process that may not write a byte into any file, a disk is full."""


@pytest.mark.parametrize(
    ("before", "age", "told"),
    [(FULL, 60.0, True), (FULL, 1.0, False), ("exec ", 60.0, False)],
    ids=["old-and-full", "fresh-and-full", "old"],
)
def test_the_reason_for_an_old_status_is_told(tmp_path: Path, before: str, age: float, told: bool) -> None:
    store = Store(tmp_path)
    run = launch(store)
    store.owners.take(run.id, Owner.current())
    store.publish(run.id, a_status(run, observed_at=time.time() - age))
    ended = subprocess.run(
        ["/bin/bash", "-c", f'{before} "$@"', "-", sys.executable, "-m", "launcher.cli", "status", run.id],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.id in ended.stdout, ended.stderr
    assert ("nothing is decided for the runs, and the status is old" in ended.stderr) is told, ended.stderr
