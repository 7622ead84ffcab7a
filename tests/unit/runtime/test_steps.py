"""Heartbeat files with steps: what is read of them, and what is not."""

import os
from pathlib import Path

import pytest

from launcher.runtime.steps import WINDOW, StepTimes, parse


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"12", (12, None)),
        (b"12 0.84\n", (12, 0.84)),
        (b" 12   3 ", (12, 3.0)),
        (b"", None),
        (b"12 0.84 7", None),
        (b"12 -1", None),
        (b"12 nan", None),
        (b"12 1e9", None),
        (b"-3", None),
        (b"step 12", None),
        (b"\xff\x00", None),
        (b"9" * 16, None),
        (b"1" + b" " * 64, None),
    ],
)
def test_parse(data: bytes, found: tuple[int, float | None] | None) -> None:
    assert parse(data) == found


def test_the_median_of_the_last_steps_is_told(tmp_path: Path) -> None:
    times, file = StepTimes(), tmp_path / "heartbeat"
    assert times.of(tmp_path, "heartbeat") is None
    for step in range(2 * WINDOW):
        file.write_text(f"{step} {9.0 if step == 70 else 0.5}")
        times.of(tmp_path, "heartbeat")
    assert times.of(tmp_path, "heartbeat") == {"step": 2 * WINDOW - 1, "over": WINDOW, "own": 0.5}


def test_odd_content_changes_nothing_and_going_back_begins_anew(tmp_path: Path) -> None:
    times, file = StepTimes(), tmp_path / "heartbeat"
    file.write_text("7 0.5")
    times.of(tmp_path, "heartbeat")
    file.write_bytes(b"8 0.")
    assert times.of(tmp_path, "heartbeat") == {"step": 8, "over": 2, "own": 0.25}
    file.write_bytes(b"nonsense")
    assert times.of(tmp_path, "heartbeat") == {"step": 8, "over": 2, "own": 0.25}
    file.write_text("3")
    assert times.of(tmp_path, "heartbeat") == {"step": 3, "over": 1}


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    (tmp_path / "huge").write_bytes(b"1" * 1_000_000)
    for name in ("pipe", "link", "folder", "huge"):
        assert StepTimes().of(tmp_path, name) is None
