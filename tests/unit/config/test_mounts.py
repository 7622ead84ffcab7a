"""Where file mounts may go."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory.read import built_in
from launcher.config.task.envs import Given
from launcher.config.task.mounts import check_mounts
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


def test_local_racks_take_no_mount_outside_of_the_workdir_for_that_is_this_machine(path: Path) -> None:
    parsed = read_task(path, given=Given(envs={"PART": "p"}))
    with pytest.raises(SpecError) as refusal:
        check_mounts(parsed.task, built_in(), where="task.yaml", places=parsed.places)
    assert [str(mistake) for mistake in refusal.value.mistakes] == [
        (
            "task.yaml:4:3: `file_mounts` to `~/p/a` would overwrite your own files: local racks are this machine\n"
            "  hint: write a path relative to the workdir, such as `a`"
        ),
        (
            "task.yaml:5:3: `file_mounts` to `/abs` would overwrite your own files: local racks are this machine\n"
            "  hint: write a path relative to the workdir, such as `abs`"
        ),
    ]
    check_mounts(parsed.task, replace(built_in(), transport=Transport.SSH))


def test_a_variable_of_the_command_line_fills_in_both_sides(path: Path, tmp_path: Path) -> None:
    (tmp_path / "p.json").touch()
    path.write_text("run: x\nenvs: {PART: q}\nfile_mounts: {/data/$PART: '${PART}.json'}\n")
    found = read_task(path, given=Given(envs={"PART": "p"})).task.file_mounts
    assert found == {"/data/p": str(tmp_path / "p.json")}
