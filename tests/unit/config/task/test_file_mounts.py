"""Targets and variables of file mounts."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory.built_in import built_in
from launcher.config.task.envs import Overrides
from launcher.config.task.file_mounts import check_mounts
from launcher.config.task.read import read_task
from launcher.core.model.inventory import Transport
from launcher.errors import SpecError

TEXT = (
    "run: x\nenvs: {PART: null}\nfile_mounts:\n  ~/${PART}/a: task.yaml\n  /abs: task.yaml\n  in/workdir: task.yaml\n"
)


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    made = tmp_path / "task.yaml"
    made.write_text(TEXT)
    return made


def test_mount_outside_of_the_workdir_is_refused_for_local_racks(path: Path) -> None:
    parsed = read_task(path, overrides=Overrides(envs={"PART": "p"}))
    with pytest.raises(SpecError) as refusal:
        check_mounts(parsed.task, built_in(), where="task.yaml", marks=parsed.marks)
    assert [str(mistake) for mistake in refusal.value.mistakes] == [
        (
            "task.yaml:4:3: `file_mounts` to `~/p/a` would overwrite your own files: local racks run on this machine\n"
            "  hint: write a path relative to the workdir, such as `a`"
        ),
        (
            "task.yaml:5:3: `file_mounts` to `/abs` would overwrite your own files: local racks run on this machine\n"
            "  hint: write a path relative to the workdir, such as `abs`"
        ),
    ]
    check_mounts(parsed.task, replace(built_in(), transport=Transport.SSH))


def test_variables_of_the_command_line_are_expanded_on_both_sides(path: Path, tmp_path: Path) -> None:
    (tmp_path / "p.json").touch()
    path.write_text("run: x\nenvs: {PART: q}\nfile_mounts: {/data/$PART: '${PART}.json'}\n")
    found = read_task(path, overrides=Overrides(envs={"PART": "p"})).task.file_mounts
    assert found == {"/data/p": str(tmp_path / "p.json")}
