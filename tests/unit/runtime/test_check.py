"""A check on this machine: what it says of odd programs, and what is left of it."""

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.runtime import check
from launcher.runtime.protocol_programs import CheckReply


@pytest.fixture(autouse=True)
def own_tmp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    yield tmp_path
    assert not [path for path in tmp_path.iterdir() if time.time() - path.stat().st_mtime < check.OLD_S / 2]


@pytest.fixture(autouse=True)
def reader(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stdout of a runner is a pipe that the launcher reads."""
    near, far = os.pipe()
    monkeypatch.setattr(check, "READER", far)
    yield
    os.close(near)
    os.close(far)


def run(script: str, limit: float = 20.0) -> CheckReply:
    return check.reply(
        {
            "token": f"t{os.getpid()}",
            "script": script,
            "env": {},
            "limit": limit,
            "lease": [],
            "holder": "me",
            "beside": "",
            "idle": False,
            "login": False,
        }
    )


def test_output_does_not_name_the_folder_that_is_another_on_each_node() -> None:
    found = run("if")
    assert found["status"] == 2
    assert "nvlaunch-check-" not in found["stderr"]
    assert found["stderr"].startswith("check: ")


@pytest.mark.parametrize("first", ["#!/bin/sh '", "#!/no/such/program", "#!"])
def test_a_program_that_cannot_start_is_said(first: str) -> None:
    found = run(f"{first}\nexit 0\n")
    assert found["state"] == "failed"
    assert found["message"].startswith("cannot start the check: ")
    assert "nvlaunch-check-" not in found["message"]


def test_folders_of_checks_that_were_killed_are_removed_after_a_day(own_tmp: Path) -> None:
    for name, age in (
        ("nvlaunch-check-old", 2 * check.OLD_S),
        ("nvlaunch-check-new", 0.6 * check.OLD_S),
        ("other", 1e6),
    ):
        (own_tmp / name).mkdir()
        os.utime(own_tmp / name, (time.time() - age,) * 2)
    outside = own_tmp / "outside"
    (outside / "kept").mkdir(parents=True)
    os.utime(outside, (0, 0))
    (own_tmp / "nvlaunch-check-link").symlink_to(outside)
    os.utime(own_tmp / "nvlaunch-check-link", (0, 0), follow_symlinks=False)
    assert run("exit 0")["status"] == 0
    assert sorted(path.name for path in own_tmp.iterdir() if "old" in path.name or "new" in path.name) == [
        "nvlaunch-check-new"
    ]
    assert (outside / "kept").exists()
