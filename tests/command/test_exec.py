"""`exec`, `ssh` and `sync-down` as people type them, over the imaginary fleet."""

from collections.abc import Iterator

import pytest

from tests.command.test_runs import Desk, until
from tests.command.test_runs import desk as desk  # noqa: PLC0414 a fixture


@pytest.fixture
def running(desk: Desk) -> Iterator[Desk]:
    """A run that goes on for longer than the test."""
    desk.fleet("{seed: 1, speed: 20, run_s: inf}")
    assert desk.up("-d").returncode == 0
    until(lambda: desk.state() == "running", "running")
    yield desk
    desk.run("down", "job", "-y")


def test_a_command_runs_beside_the_ranks_that_were_named(running: Desk) -> None:
    one = running.run("exec", "job", "--", "nvidia-smi", "-L")
    assert one.returncode == 0, one.stderr
    assert "NVLAUNCH_NODE_RANK=0\n" in one.stdout
    assert "[" not in one.stdout
    assert "imaginary racks: no program runs" in one.stderr
    every = running.run("exec", "job", "--all", "--", "true")
    assert {line.split()[0] for line in every.stdout.splitlines()} == {f"[main/{rank}]" for rank in range(4)}
    part = running.run("exec", "job", "--slice", "1", "--", "true").stdout
    assert {line.split()[0] for line in part.splitlines()} == {"[main/2]", "[main/3]"}
    node = running.run("exec", "job", "--node", "r1-n2", "--", "true").stdout
    assert "NVLAUNCH_NODE_RANK=1\n" in node


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--rank", "7"), "`job` has no rank `7`"),
        (("--slice", "2"), "`job` has no slice `2`"),
        (("--node", "r9"), "`job` has no node `r9`"),
        (("--rank", "1", "--all"), "exclude each other"),
        (("--timeout", "0"), "`0` is less than 1"),
    ],
)
def test_what_the_run_does_not_have_is_refused(running: Desk, words: tuple[str, ...], said: str) -> None:
    done = running.run("exec", "job", *words, "--", "true")
    assert done.returncode == 2
    assert said in done.stderr


def test_files_of_each_rank_get_a_folder_of_their_own(running: Desk) -> None:
    done = running.run("sync-down", "job", "out/model.pt", "back", "--all")
    assert done.returncode == 0, done.stderr
    assert "4 files" in done.stderr
    got = {str(path.relative_to(running.folder / "back")) for path in (running.folder / "back").rglob("*.pt")}
    assert got == {f"{rank}/model.pt" for rank in range(4)}
    again = running.run("sync-down", "job", "out/model.pt", "back")
    assert again.returncode == 4
    assert "`model.pt`: already exists here" in again.stderr
    assert "--force" in again.stderr
    assert running.run("sync-down", "job", "out/model.pt", "back", "--force").returncode == 0


def test_an_imaginary_node_has_no_terminal_and_a_run_that_is_over_no_nodes(running: Desk) -> None:
    assert "is imaginary" in running.run("ssh", "job/3").stderr
    assert running.run("down", "job", "-y").returncode == 0
    for words in (("exec", "job", "--", "true"), ("ssh", "job")):
        done = running.run(*words)
        assert done.returncode == 2
        assert "run `job` has ended; its nodes were released" in done.stderr
