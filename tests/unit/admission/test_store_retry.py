"""What is said of a store that fails, also where the log is on the disk that is full."""

import sys
from pathlib import Path

import pytest

from launcher.admission.store_retry import ControllerLog, StoreRetry
from launcher.errors import StoreError


def test_what_a_full_disk_does_not_take_stands_before_the_next_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, path = ControllerLog(), tmp_path / "log"
    with Path("/dev/full").open("w") as full, path.open("w") as free:
        monkeypatch.setattr(sys, "stderr", full)
        log("it is full")
        monkeypatch.setattr(sys, "stderr", free)
        log("it is free")
    assert [line.split(" ", 2)[2] for line in path.read_text().splitlines()] == ["it is full", "it is free"]


def test_each_fault_is_told_once_until_it_is_over() -> None:
    said: list[str] = []
    trouble = StoreRetry(said.append)
    trouble.recovered()
    for words in ("locked", "full", "locked"):
        trouble.report(StoreError(words))
    trouble.recovered()
    trouble.recovered()
    trouble.report(StoreError("full"))
    assert [line.rpartition(" ")[2] for line in said] == ["locked", "full", "again", "full"]


def test_an_error_that_is_no_fault_of_the_store_ends_it() -> None:
    def bug() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        StoreRetry(lambda _: None).call(bug, lambda: False)
