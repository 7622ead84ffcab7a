"""What counts as a fault of the node itself, and what is done where no file and no thread can be had."""

import errno
import importlib
import os
import resource
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.runtime.protocol_files import NODE_ERRORS, described

deadline = importlib.import_module("launcher.runtime.deadline")
node_fault = importlib.import_module("launcher.runtime.node_fault")
agent_faults = importlib.import_module("launcher.runtime.agent_faults")
files = importlib.import_module("launcher.runtime.files")
ranks = importlib.import_module("launcher.runtime.ranks")
rpc = importlib.import_module("launcher.runtime.rpc")


@pytest.mark.parametrize("name", NODE_ERRORS)
def test_errors_of_disks_and_limits_are_the_nodes_with_their_path(name: str) -> None:
    number = getattr(errno, name)
    assert os.strerror(number) == NODE_ERRORS[name]
    fault = node_fault.of(OSError(number, os.strerror(number), "/home/u/x"), "prepare")
    assert fault == {"stage": "prepare", "path": "/home/u/x", "errno": name}


@pytest.mark.parametrize(
    "error",
    [
        FileNotFoundError(2, "No such file"),
        PermissionError(13, "denied"),
        ValueError("x"),
        OSError("plain"),
        KeyError("k"),
    ],
)
def test_other_errors_are_not(error: Exception) -> None:
    assert node_fault.of(error, "prepare") is None
    assert node_fault.refusal(error, "prepare") == {"ok": False, "message": f"{type(error).__name__}: {error}"}


def test_a_fault_is_one_sentence_with_path_and_errno() -> None:
    assert described({"stage": "ray", "path": "/tmp/x", "errno": "EROFS"}) == (
        "cannot write `/tmp/x`: read-only file system (EROFS)"
    )
    assert described({"stage": "ray", "path": "", "errno": "EAGAIN"}) == (
        "cannot start anything more: resource temporarily unavailable (EAGAIN)"
    )
    refusal = node_fault.refusal(RuntimeError("can't start new thread"), "ray")
    assert refusal["fault"] == {"stage": "ray", "path": "", "errno": "EAGAIN"}


def test_a_node_that_is_well_is_looked_at_without_a_trace(tmp_path: Path) -> None:
    assert node_fault.look((tmp_path,), "ray") is None
    assert list(tmp_path.iterdir()) == []


def test_a_start_that_failed_on_a_node_that_is_well_is_not_blamed_on_it(tmp_path: Path) -> None:
    wrong = {"ok": False, "message": "driver `main-0` did not start"}
    assert node_fault.blamed(wrong, tmp_path) == wrong


@pytest.fixture
def no_thread() -> Iterator[None]:
    """No thread more can be started: each would need more memory for its stack than there is of addresses."""
    before = threading.stack_size(1 << 46)
    yield
    threading.stack_size(before)


@pytest.mark.usefixtures("no_thread")
def test_a_node_that_starts_no_thread_is_at_fault(tmp_path: Path) -> None:
    assert node_fault.look((tmp_path,), "ray") == {"stage": "ray", "path": "", "errno": "EAGAIN"}


@pytest.mark.usefixtures("no_thread")
def test_a_start_that_failed_on_a_sick_node_is_blamed_on_it(tmp_path: Path) -> None:
    blamed = node_fault.blamed({"ok": False, "message": "driver `main-0` did not start"}, tmp_path)
    assert blamed["message"].startswith("driver `main-0` did not start: cannot start anything more")
    assert blamed["fault"]["errno"] == "EAGAIN"


@pytest.mark.usefixtures("no_thread")
def test_ray_is_not_started_where_it_would_find_no_room() -> None:
    with pytest.raises(RuntimeError) as caught:
        node_fault.require_room()
    assert node_fault.refusal(caught.value, "ray")["fault"]["errno"] == "EAGAIN"


def test_where_there_is_room_nothing_is_left_of_the_question() -> None:
    before = threading.active_count()
    node_fault.require_room()
    assert threading.active_count() == before


def test_a_node_that_opens_no_file_is_at_fault(tmp_path: Path) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        fault = node_fault.look((tmp_path,), "ray")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert fault == {"stage": "ray", "path": str(tmp_path), "errno": "EMFILE"}


def test_an_agent_that_starts_no_thread_answers_one_request_after_the_other(tmp_path: Path) -> None:
    path = tmp_path / "s"
    rpc.serve(path, lambda asked: {"ok": True, "got": asked["n"]})
    before = threading.stack_size(1 << 46)
    try:
        assert [rpc.ask(path, {"n": n}, timeout=5)["got"] for n in range(3)] == [0, 1, 2]
    finally:
        threading.stack_size(before)


def test_a_request_that_fails_for_the_node_says_so_over_the_wire(tmp_path: Path) -> None:
    def reply(_: dict[str, Any]) -> dict[str, Any]:
        raise OSError(errno.EDQUOT, "Disk quota exceeded", "/home/u/secrets.json")

    rpc.serve(tmp_path / "s", reply)
    refused = rpc.ask(tmp_path / "s", {"op": "prepare"}, timeout=5)
    assert refused["fault"] == {"stage": "prepare", "path": "/home/u/secrets.json", "errno": "EDQUOT"}
    assert refused["message"] == "cannot write `/home/u/secrets.json`: disk quota exceeded (EDQUOT)"


@pytest.mark.parametrize("write", [files.write, files.create])
def test_a_file_on_a_full_disk_is_named_and_leaves_no_half(tmp_path: Path, write: Any) -> None:
    files.draft(tmp_path / "exit.json").symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        write(tmp_path / "exit.json", {"code": 0})
    assert caught.value.filename == str(tmp_path / "exit.json")
    assert list(tmp_path.iterdir()) == []


def test_the_end_of_a_log_tells_a_fault_and_its_path() -> None:
    lines = ["started", "OSError: [Errno 28] No space left on device: '/tmp/nvl-1/ray/session'", "exit"]
    assert node_fault.in_log(lines, "ray") == {"stage": "ray", "path": "/tmp/nvl-1/ray/session", "errno": "ENOSPC"}
    assert node_fault.in_log(["all is well"], "ray") is None


@pytest.mark.parametrize(
    ("line", "blames"),
    [
        ("run.sh: fork: retry: Resource temporarily unavailable", True),
        ("blas_thread_init: pthread_create failed for thread 5 of 64: Resource temporarily unavailable", True),
        ("RuntimeError: can't start new thread", True),
        ("recv: Resource temporarily unavailable", False),
        ("OSError: [Errno 28] No space left on device: '/shared/checkpoint'", False),
    ],
)
def test_of_a_users_log_only_a_refused_process_is_the_nodes(line: str, blames: bool) -> None:
    assert bool(node_fault.in_output(["step 1", line])) is blames


def failed_rank(tail: list[str]) -> dict[str, Any]:
    row = {"member": "main/1", "attempt": 1, "running": False, "exit_code": None, "tail": tail}
    return {"ok": True, "ray": {"phase": "running"}, "ranks": [row]}


def test_an_agent_remembers_how_a_rank_ended_that_could_not_be_written_down(tmp_path: Path) -> None:
    own = tmp_path / "ranks" / "main-1" / "1"
    own.mkdir(parents=True)
    files.write(own / "state.json", {"pid": 1 << 22, "start": 0, "member": "main/1", "gang": "run", "attempt": 1})
    known = agent_faults.AgentFaults((tmp_path,))
    (row,) = ranks.statuses(tmp_path, ranks.QuietTimes(), known.ends)
    assert row["exit_code"] is None, "without a word of its parent it has vanished"
    asked = {
        "op": "ended",
        "member": "main/1",
        "attempt": 1,
        "end": {"code": 0, "at": 5.0, "since_boot": deadline.now() - 5.0},
    }
    assert known.ended(asked)["ok"]
    (row,) = ranks.statuses(tmp_path, ranks.QuietTimes(), known.ends)
    assert (row["exit_code"], round(row["ended_ago"])) == (0, 5)


def test_the_fault_of_a_rank_that_did_not_begin_is_told_while_it_counts_as_failed(tmp_path: Path) -> None:
    known = agent_faults.AgentFaults((tmp_path,))
    fault = {"stage": "rank", "path": "", "errno": "EAGAIN"}
    known.ended({"op": "ended", "member": "main/1", "attempt": 1, "end": {"code": None, "at": 5.0}, "fault": fault})
    assert known.added_to(failed_rank([]))["fault"] == fault
    assert "fault" not in known.added_to({"ok": True, "ray": {"phase": "running"}, "ranks": []})
    assert "fault" not in known.added_to(failed_rank([])), "that was another time"


def test_a_program_that_fails_on_a_node_that_is_well_is_not_the_nodes(tmp_path: Path) -> None:
    known = agent_faults.AgentFaults((tmp_path,))
    assert "fault" not in known.added_to(failed_rank(["ValueError: no such layer"]))
