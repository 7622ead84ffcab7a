"""What a node remembers of kills, and what it says of ranks of several attempts and of quiet ones."""

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest

fences = importlib.import_module("launcher.runtime.fences")
deadline = importlib.import_module("launcher.runtime.deadline")
procs = importlib.import_module("launcher.runtime.procs")
ranks = importlib.import_module("launcher.runtime.ranks")


def test_what_was_killed_never_starts_again_and_a_new_agent_knows_it(tmp_path: Path) -> None:
    kept = fences.Fences(tmp_path / "fences.json")
    kept.raise_to("generation", "main/0", 2, 0)
    kept.raise_to("rank", "main/1", 0, 5)
    for found in (kept, fences.Fences(tmp_path / "fences.json")):
        assert "generation 2 of `main/0` is over" in found.against_raylet("main/0", 2)
        assert found.against_raylet("main/0", 3) == ""
        assert found.against_raylet("main/1", 0) == "", "another slot on this node is not meant"
        assert found.against_rank("main/0", 2, 9)
        assert "attempt 5 of `main/1` is over" in found.against_rank("main/1", 7, 5)
        assert found.against_rank("main/1", 7, 6) == ""


def test_an_old_kill_lowers_nothing_and_one_of_the_node_ends_nothing_for_good(tmp_path: Path) -> None:
    kept = fences.Fences(tmp_path / "fences.json")
    kept.raise_to("generation", "main/0", 4, 0)
    kept.raise_to("generation", "main/0", 1, 0)
    kept.raise_to("node", "main/1", 9, 9)
    assert kept.against_raylet("main/0", 4)
    assert kept.against_raylet("main/1", 9) == ""


def test_a_fence_holds_where_it_cannot_be_written_down(tmp_path: Path) -> None:
    kept = fences.Fences(tmp_path / "no-such-folder" / "fences.json")
    kept.raise_to("rank", "main/0", 0, 3)
    assert kept.against_rank("main/0", 0, 3)


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def rank(folder: Path, attempt: int, *, lives: bool, code: int | None = None) -> Path:
    own = folder / "ranks" / "main-0" / str(attempt)
    own.mkdir(parents=True)
    me = procs.find(os.getpid())
    start = me.start if lives else me.start - 1
    (own / "state.json").write_text(json.dumps({"pid": me.pid, "start": start, "member": "main/0", "attempt": attempt}))
    if code is not None:
        (own / "exit.json").write_text(json.dumps({"code": code, "at": 1.0}))
    return own


def told(folder: Path, quiet: Any = None) -> list[tuple[int, bool]]:
    return [(one["attempt"], one["running"]) for one in ranks.statuses(folder, quiet or ranks.QuietTimes(), {})]


@pytest.mark.parametrize(
    ("attempts", "expected"),
    [
        ({1: "ended", 2: "lives"}, [(2, True)]),
        ({1: "lives", 2: "ended"}, [(1, True), (2, False)]),
        ({1: "ended", 2: "never-began"}, [(1, False)]),
        ({1: "lives", 2: "never-began", 3: "lives"}, [(1, True), (3, True)]),
    ],
    ids=["newest", "an-older-one-still-lives", "the-newest-never-began", "two-live"],
)
def test_the_newest_attempt_that_began_is_told_and_each_older_one_that_lives(
    tmp_path: Path, attempts: dict[int, str], expected: list[tuple[int, bool]]
) -> None:
    for attempt, how in attempts.items():
        if how == "never-began":
            (tmp_path / "ranks" / "main-0" / str(attempt)).mkdir(parents=True)
        else:
            rank(tmp_path, attempt, lives=how == "lives", code=0 if how == "ended" else None)
    assert told(tmp_path) == expected


def test_a_rank_is_quiet_since_its_files_were_last_seen_to_change(tmp_path: Path) -> None:
    clock = Time()
    own, quiet = rank(tmp_path, 1, lives=True), ranks.QuietTimes(clock)

    def now_quiet() -> float:
        (report,) = ranks.statuses(tmp_path, quiet, {})
        return float(report["quiet"])

    assert now_quiet() == 0.0
    clock.now = 40.0
    assert now_quiet() == 40.0
    (own / "log").write_text("step 1\n")
    assert now_quiet() == 0.0
    clock.now = 50.0
    (own / ranks.HEARTBEAT).touch()
    assert now_quiet() == 0.0
    clock.now = 70.0
    os.utime(own / "log", (0, 0))
    assert now_quiet() == 0.0, "a clock that was set back is a change too, and never a long silence"


def test_a_deadline_is_read_by_others_and_gone_with_its_file(tmp_path: Path) -> None:
    path = tmp_path / "deadline"
    published = deadline.Deadline(path)
    assert deadline.Deadline.read(str(path)) == float("inf")
    published.put(1234.5)
    assert deadline.Deadline.read(str(path)) == 1234.5
    path.unlink()
    assert deadline.Deadline.read(str(path)) == float("inf")


def test_a_deadline_that_is_watched_is_known_when_its_file_is_gone(tmp_path: Path) -> None:
    """Whoever logs out last may have the machine empty its shared memory."""
    path = tmp_path / "head-deadline"
    published = deadline.Deadline(path)
    watched = deadline.WatchedDeadline(path)
    assert watched.read() == float("inf")
    path.unlink()
    published.put(1234.5)
    assert watched.read() == 1234.5
    watched.close()
    with pytest.raises(FileNotFoundError):
        deadline.WatchedDeadline(path)
