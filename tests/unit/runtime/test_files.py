"""What the node's programs write and read: marks, logs, ranks' folders."""

import importlib
import json
import os
import stat
from pathlib import Path

import pytest

environment = importlib.import_module("launcher.runtime.environment")
files = importlib.import_module("launcher.runtime.files")
logs = importlib.import_module("launcher.runtime.logs")
procs = importlib.import_module("launcher.runtime.procs")
ranks = importlib.import_module("launcher.runtime.ranks")

RAYLET = "r:n1:2"
SETUP = "r:n1:setup"
RANK = "r:n1:2:main/0:5"


@pytest.mark.parametrize(
    ("scope", "covered"),
    [
        ({}, {RAYLET, SETUP, RANK}),
        ({"level": "generation", "generation": 2}, {RAYLET, RANK}),
        ({"level": "generation", "generation": 1}, set()),
        ({"level": "rank", "member": "main/0", "attempt": 5}, {RANK}),
        ({"level": "rank", "member": "main/0", "attempt": 4}, set()),
        ({"level": "rank", "member": "main/1", "attempt": 9}, set()),
    ],
    ids=["node", "generation", "newer-generation", "rank", "newer-attempt", "other-member"],
)
def test_a_kill_covers_just_its_level(scope: dict[str, object], covered: set[str]) -> None:
    found = procs.Scope("r", "n1", **scope)
    assert {mark for mark in (RAYLET, SETUP, RANK) if found.covers(mark)} == covered


@pytest.mark.parametrize("mark", ["r:n2:2", "r2:n1:2", "r:@head:0", "", "nonsense"])
def test_no_kill_covers_another_place_or_run(mark: str) -> None:
    assert not procs.Scope("r", "n1").covers(mark)


def test_the_end_of_a_log_is_bounded_and_readable(tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert logs.tail(log) == []
    log.write_bytes(b"".join(b"line %d\r\n" % at for at in range(100_000)) + b"bad \xff byte\n\n")
    found = logs.tail(log)
    assert len(found) == 20
    assert found[-2:] == ["line 99999", "bad � byte"]
    log.write_bytes(b"x" * 5_000_000)
    assert sum(map(len, logs.tail(log))) <= 16 * 1024


def test_a_log_is_read_in_pieces(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"0123456789")
    assert logs.part(log, 0) == (b"0123456789", 10)
    assert logs.part(log, 4) == (b"456789", 10)
    assert logs.part(log, -3) == (b"789", 10)
    assert logs.part(log, -99) == (b"0123456789", 10)
    assert logs.part(log, 99) == (b"", 10)
    assert logs.part(tmp_path / "none", 7) == (b"", 7)


def test_a_file_is_created_once(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    assert files.create(path, {"pid": 1})
    assert not files.create(path, {"pid": 2})
    assert files.read(path) == {"pid": 1}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    files.write(path, {"pid": 3})
    assert files.read(path) == {"pid": 3}
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.json"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"code": 0'], ids=["empty", "cut", "list", "cut-value"])
def test_a_file_that_is_cut_short_counts_as_absent(tmp_path: Path, content: str) -> None:
    (tmp_path / "exit.json").write_text(content)
    assert files.read(tmp_path / "exit.json") is None


def test_a_folder_where_anybody_may_write_must_be_ours_alone(tmp_path: Path) -> None:
    assert files.private(tmp_path / "ours") == tmp_path / "ours"
    assert files.private(tmp_path / "ours") == tmp_path / "ours"
    (tmp_path / "open").mkdir(mode=0o700)
    (tmp_path / "open").chmod(0o755)
    (tmp_path / "link").symlink_to(tmp_path / "ours")
    for name in ("open", "link"):
        with pytest.raises(PermissionError):
            files.private(tmp_path / name)


def rank_folder(root: Path, attempt: int, state: dict[str, object], end: dict[str, object] | None = None) -> None:
    folder = root / "ranks" / "main-0" / str(attempt)
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(json.dumps({"member": "main/0", "attempt": attempt, **state}))
    (folder / "log").write_text("the last words\n")
    if end:
        (folder / "exit.json").write_text(json.dumps(end))


def test_the_newest_attempt_of_a_rank_is_reported(tmp_path: Path) -> None:
    me = procs.find(os.getpid())
    quiet = ranks.QuietTimes()
    assert ranks.statuses(tmp_path, quiet, {}) == []
    rank_folder(tmp_path, 9, {"pid": me.pid, "start": me.start}, {"code": 3, "at": 5.0})
    (failed,) = ranks.statuses(tmp_path, quiet, {})
    assert failed == {
        "member": "main/0", "attempt": 9, "running": False, "exit_code": 3, "tail": ["the last words"],
    }  # fmt: skip
    rank_folder(tmp_path, 10, {"pid": me.pid, "start": me.start})
    (running,) = ranks.statuses(tmp_path, quiet, {})
    assert (running["attempt"], running["running"]) == (10, True)
    rank_folder(tmp_path, 11, {"pid": me.pid, "start": me.start - 1})
    _, vanished = ranks.statuses(tmp_path, quiet, {})
    assert (vanished["attempt"], vanished["running"], vanished["exit_code"]) == (11, False, None)


def test_a_program_sees_a_login_and_nothing_else_of_the_shell_that_launched() -> None:
    given = {"PATH": "/opt/x/bin:/usr/bin", "LC_ALL": "C.UTF-8", "https_proxy": "http://p:1", "HF_TOKEN": "secret"}
    found = environment.user({**given, "RAY_ADDRESS": "1.2.3.4:6379", "PYTHONPATH": "/x", "VIRTUAL_ENV": "/v"})
    assert {name: found[name] for name in ("PATH", "LC_ALL", "https_proxy")} == {
        name: value for name, value in given.items() if name != "HF_TOKEN"
    }
    assert set(found) - set(given) == {"HOME", "USER", "LOGNAME", "SHELL"}
    assert "HF_TOKEN" not in found


def test_ray_sees_only_what_it_is_given() -> None:
    found = environment.ray({"RAY_AUTH_TOKEN_PATH": "@folder@/token"}, "/run/folder", "/tmp/nvl-1", "/env/bin/python")
    assert found["RAY_AUTH_TOKEN_PATH"] == "/run/folder/token"
    assert found["HOME"] == "/tmp/nvl-1"
    assert not [name for name in found if name.lower().endswith("_proxy")]


@pytest.mark.parametrize("kind", ["open", "link", "file"])
def test_a_folder_that_others_could_use_is_refused_with_its_owner(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "scratch"
    if kind == "open":
        path.mkdir()
        path.chmod(0o755)
    elif kind == "link":
        path.symlink_to(tmp_path)
    else:
        path.write_text("")
    with pytest.raises(PermissionError, match=f"`{path}` of user {path.lstat().st_uid} is not a folder"):
        files.private(path)
