"""What is read of the output of a run that is followed, while its controller goes on elsewhere."""

import time

import pytest

from launcher.drive.log_reader import LogChunk
from launcher.drive.output import OutputReader
from launcher.store.store import Store
from tests.command.test_runs import Desk
from tests.command.test_runs import desk as desk  # noqa: PLC0414 a fixture


@pytest.mark.parametrize(("rank", "labels"), [("main/1", {"main/1"}), (None, {f"main/{rank}" for rank in range(4)})])
def test_the_output_of_ranks_is_read_once_they_run(desk: Desk, rank: str | None, labels: set[str]) -> None:
    desk.fleet("{seed: 1, run_s: 600, speed: 1}")
    assert desk.up("-d").returncode == 0
    reader, seen, deadline = OutputReader(desk.home, Store(desk.home).find("job").id, rank), list[LogChunk](), 60.0
    until = time.monotonic() + deadline
    while {chunk.source.label for chunk in seen} != labels:
        assert time.monotonic() < until, seen
        seen += reader.take()
    reader.close()
    assert all(chunk.data for chunk in seen)
    assert desk.run("down", "job", "-y").returncode == 0


def test_a_run_that_has_ended_has_no_more_to_read(desk: Desk) -> None:
    desk.fleet("{seed: 1, run_s: 1}")
    assert desk.up().returncode == 0
    reader = OutputReader(desk.home, Store(desk.home).find("job").id, None)
    begun = time.monotonic()
    assert list(reader.rest(30.0)) == []
    assert time.monotonic() - begun < 20.0
