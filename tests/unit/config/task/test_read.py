"""Name, workdir, and combinations of keys of a task."""

from pathlib import Path

import pytest

from launcher.config.task.envs import Overrides
from launcher.config.task.read import read_task
from launcher.errors import SpecError
from tests.unit.config.task.parsing import complaints, parse

RUN = "run: echo\n"
DRIVER = "driver: python a.py\n"


def test_name_is_from_the_command_line_or_the_task_or_the_file_name(tmp_path: Path) -> None:
    assert parse(tmp_path, "name: a\nrun: x", Overrides(name="b")).task.name == "b"
    assert parse(tmp_path, "name: a\nrun: x").task.name == "a"
    assert parse(tmp_path, "run: x").task.name == "my-task-v2"


def test_invalid_name_on_the_command_line_is_refused(tmp_path: Path) -> None:
    (said,) = complaints(tmp_path, "run: x", Overrides(name="a/../b"))
    assert said.startswith("--name: `a/../b` is not a valid run name")


def test_workdir_is_relative_to_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a b").mkdir()
    monkeypatch.chdir(tmp_path / "a b")
    assert parse(tmp_path, "workdir: .\nrun: x").task.workdir == str(tmp_path / "a b")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert parse(tmp_path, "workdir: ~/a b\nrun: x").task.workdir == str(tmp_path / "a b")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (RUN + DRIVER, "2:1: `driver` cannot be combined with `run`"),
        (RUN + "reserve: true", "2:1: `reserve` requires `driver`"),
        (DRIVER + "recovery: {restart_with: member}", "2:26: `restart_with: member` cannot be combined with `driver`"),
        (
            RUN + "priority: 1\nresources: {priority: 2}",
            "3:13: `priority: 2` contradicts `priority: 1`",
        ),
        (
            "priority: 1\ngroups:\n  a: {run: x, resources: {priority: 2}}",
            "3:27: `priority: 2` contradicts `priority: 1`",
        ),
    ],
)
def test_keys_that_cannot_be_combined_are_refused(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "task.yaml"
    path.write_text(text)
    with pytest.raises(SpecError) as refusal:
        read_task(path)
    assert any(str(one).startswith(f"{path}:{said}") for one in refusal.value.mistakes)
