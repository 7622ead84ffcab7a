"""The hook: what a command may do wrong, without anybody waiting for it."""

import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.record import Record
from launcher.core.model.run import RunState
from launcher.drive import hooks
from launcher.drive.hooks import Hook
from launcher.store.store import Store
from tests.unit.store.test_store import launch


def told(tmp_path: Path, command: str, **task: object) -> list[str]:
    """Tell a hook of a run that was launched and taken down; answer the warnings in its journal."""
    store = Store(tmp_path / "home")
    run = launch(store, source=str(tmp_path / "task.yaml"))
    run = replace(run, task=replace(run.task, on_event=command, **task))  # type: ignore[arg-type]
    store.want_nothing(run.id)
    hook = Hook(store, run).begin()
    hook.end()
    return [event.message for event in store.journal.events(run.id) if event.subject == "on_event"]


def test_it_runs_beside_the_task_file_and_is_not_told_again(tmp_path: Path) -> None:
    assert told(tmp_path, "cat >> here") == []
    text = (tmp_path / "here").read_text()
    assert text.count('"kind"') == 2
    store = Store(tmp_path / "home")
    run = store.load(store.runs()[0].id)[0]
    Hook(store, replace(run, task=replace(run.task, on_event="cat >> here"))).begin().end()
    assert (tmp_path / "here").read_text() == text


def test_a_state_that_an_earlier_controller_told_is_not_told_again(tmp_path: Path) -> None:
    store = Store(tmp_path / "home")
    run = launch(store, source=str(tmp_path / "task.yaml"))
    run = replace(run, task=replace(run.task, on_event="cat >> here"))
    for status_message in ("3 of 4 ranks running, 1 done", "2 of 4 ranks running, 2 done"):
        store.intend(run.id, Record(), (), status_message, RunState.RUNNING, 1.0)
        Hook(store, run).begin().end()
    assert (tmp_path / "here").read_text().count('"running"') == 1


def test_a_command_that_hangs_is_killed_with_all_it_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooks, "DEADLINE_S", 0.2)
    (warning,) = told(tmp_path, "echo $$ >> pids; sleep 60 & echo $! >> pids; wait")
    assert warning.endswith("killed after 0 s")
    deadline = time.monotonic() + 10
    for pid in map(int, (tmp_path / "pids").read_text().split()):
        while _alive(pid):
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_it_has_no_secret_in_its_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    told(tmp_path, "env > env", secrets=("TOKEN",))
    assert "hunter2" not in (tmp_path / "env").read_text()


def test_what_it_prints_is_stored_without_its_own_words_and_without_secrets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CHAT_TOKEN", "from-the-environment")
    said = told(tmp_path, "sh -c 'echo $((6*7)) for $0 $CHAT_TOKEN >&2; exit 7' https://ann:hunter2@chat.example")
    assert said == ["the command failed: exit status 7: 42 for <hidden> <hidden>"]


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
