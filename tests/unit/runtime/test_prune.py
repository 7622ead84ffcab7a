"""What is removed of earlier runs when a new one begins, and what never is."""

import importlib
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pytest

agent_folders = importlib.import_module("launcher.runtime.agent_folders")
prune = importlib.import_module("launcher.runtime.prune")

DAY = 24 * 3600.0
NOW = 1_800_000_000.0


def left_over(path: Path, run: str, days: float) -> Path:
    (path / "workdir").mkdir(parents=True)
    (path / "workdir" / "big").write_text("x")
    (path / "log").mkdir()
    (path / "agent.json").write_text(json.dumps({"run": run, "place": "n1", "scratch": f"/tmp/nvl-none-{run}"}))
    for one in (path / "agent.json", path / "log", path):
        os.utime(one, (NOW - days * DAY, NOW - days * DAY))
    return path


def spec(nested: bool) -> dict[str, Any]:
    return {"run": "new", "place": "n1", "nested": nested}


@pytest.mark.parametrize("nested", [True, False], ids=["machine-of-its-own", "local-node"])
def test_old_runs_go_beyond_the_newest_ten(tmp_path: Path, nested: bool) -> None:
    inner = "n1" if nested else ""
    runs = {
        days: left_over(tmp_path / f"run-{days}" / inner, f"run-{days}", days) for days in (*range(1, 10), 30, 60, 90)
    }
    own = left_over(tmp_path / "new" / inner, "new", 0)
    removed = prune.prune(own, spec(nested), NOW)
    assert sorted(removed) == sorted([runs[60], runs[90]])
    assert not (tmp_path / "run-60").exists()
    assert (runs[30] / "workdir" / "big").exists()
    assert own.exists()


def test_a_week_of_runs_stays_however_many(tmp_path: Path) -> None:
    for number in range(20):
        left_over(tmp_path / f"run-{number}", f"run-{number}", 6)
    assert prune.prune(left_over(tmp_path / "new", "new", 0), spec(False), NOW) == []


def test_a_run_that_lives_and_what_is_no_run_of_ours_stay(tmp_path: Path) -> None:
    for number in range(10):
        left_over(tmp_path / f"run-{number}", f"run-{number}", 1)
    living = left_over(tmp_path / "living", "living", 300)
    held = prune.hold(living)
    os.utime(living, (0, 0))
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    os.utime(foreign, (0, 0))
    own = left_over(tmp_path / "new", "new", 0)
    assert prune.prune(own, spec(False), NOW) == []
    os.close(held)
    os.utime(living, (0, 0))
    assert prune.prune(own, spec(False), NOW) == [living]
    assert foreign.exists()


def test_a_run_with_the_only_copy_of_writes_to_a_bucket_stays(tmp_path: Path) -> None:
    for number in range(12):
        left_over(tmp_path / f"run-{number}", f"run-{number}", 100 + number)
    (tmp_path / "run-11" / "unsent" / "1").mkdir(parents=True)
    os.utime(tmp_path / "run-11", (0, 0))
    removed = prune.prune(left_over(tmp_path / "new", "new", 0), spec(False), NOW)
    assert removed == [tmp_path / "run-10"]
    assert (tmp_path / "run-11" / "unsent").exists()


def test_what_a_killed_agent_left_in_memory_goes_with_the_next_run(tmp_path: Path) -> None:
    killed = left_over(tmp_path / "killed", "killed", 1)
    scratch = Path(tempfile.mkdtemp(prefix="nvl-"))
    (killed / "agent.json").write_text(
        json.dumps({"run": "killed", "place": "n1", "scratch": str(scratch), "interpreter": None})
    )
    secrets = agent_folders.secrets(scratch)
    (secrets / "secrets.json").write_text("{}")
    for one in (scratch, secrets, killed, killed / "agent.json"):
        os.utime(one, (NOW - DAY, NOW - DAY))
    os.utime(secrets, (NOW - 60, NOW - 60))
    own = left_over(tmp_path / "new", "new", 0)
    prune.prune(own, spec(False), NOW)
    assert secrets.exists()  # its launcher may be about to start it again
    os.utime(secrets, (NOW - DAY, NOW - DAY))
    rank = subprocess.Popen(["sleep", "60"], env={"NVLAUNCH_MARK": "killed:n1:1:main/0:1", "PATH": os.environ["PATH"]})
    try:
        prune.prune(own, spec(False), NOW)
        assert (secrets / "secrets.json").exists()
    finally:
        rank.kill()
        rank.wait()
    assert prune.prune(own, spec(False), NOW) == []
    assert not secrets.exists()
    assert not scratch.exists()
    assert (killed / "workdir" / "big").exists()


def test_another_nodes_folder_of_a_shared_home_stays(tmp_path: Path) -> None:
    for number in range(11):
        left_over(tmp_path / f"run-{number}" / "n1", f"run-{number}", 100 + number)
    other = left_over(tmp_path / "run-10" / "n2", "run-10", 110)
    removed = prune.prune(left_over(tmp_path / "new" / "n1", "new", 0), spec(True), NOW)
    assert removed == [tmp_path / "run-10" / "n1"]
    assert other.exists()
