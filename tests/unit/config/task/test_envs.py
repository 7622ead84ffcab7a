"""Variables and secrets of a task, and what the command line overrides."""

from pathlib import Path

from launcher.config.task.envs import Overrides
from launcher.config.task.read import parse_tasks
from tests.unit.config.task.parsing import complaints, parse


def test_variables_of_the_command_line_override_the_file_and_its_groups(tmp_path: Path) -> None:
    text = "envs: {A: 1, B: null}\ngroups:\n  one: {envs: {A: 2}, run: x}\n  two: {run: x}"
    task = parse(tmp_path, text, Overrides(envs={"A": "3", "B": "4", "C": "5"})).task
    assert [dict(group.envs) for group in task.groups] == [{"A": "3", "B": "4", "C": "5"}] * 2


def test_group_that_sets_a_null_variable_needs_no_option(tmp_path: Path) -> None:
    text = "envs: {A: null}\ngroups:\n  one: {envs: {A: 2}, run: x}\n  two: {run: x}"
    (said,) = complaints(tmp_path, text)
    assert said.startswith("DIR/my task.v2.yaml:1:8: variable `A` has no value")


def test_invalid_names_on_the_command_line_are_reported_with_their_option(tmp_path: Path) -> None:
    said = complaints(tmp_path, "run: x", Overrides(envs={"1A": "x", "B": "y"}, secrets=frozenset({"B", "C-D"})))
    assert [one.split(":")[0] for one in said] == ["--env", "--secret", "--secret"]


def test_secret_values_of_the_file_are_not_shown(tmp_path: Path) -> None:
    text = "secrets: {A: null, B: hunter2}\nrun: x"
    parsed = parse(tmp_path, text, Overrides(secrets=frozenset({"A", "C"})))
    assert parsed.task.secrets == ("A", "B", "C")
    assert parsed.secrets == {"B": "hunter2"}
    assert "hunter2" not in repr(parsed) + "".join(map(str, parsed.warnings))


def test_secret_without_a_value_is_a_warning_where_nothing_is_started(tmp_path: Path) -> None:
    text = "secrets: {A: null}\nrun: x"
    (said,) = complaints(tmp_path, text)
    assert "secret `A` has no value" in said
    parsed = parse(tmp_path, text, Overrides(values_later=True))
    assert (parsed.task.secrets, dict(parsed.secrets)) == (("A",), {})
    assert [warning.what for warning in parsed.warnings] == ["secret `A` has no value yet"]


def test_variable_without_a_value_is_a_warning_where_nothing_is_started(tmp_path: Path) -> None:
    """A path that uses it is not looked for: where it is is not known yet."""
    text = "envs: {DATA: null}\nfile_mounts: {~/data: /data/$DATA}\nrun: x"
    (said,) = complaints(tmp_path, text)
    assert "variable `DATA` has no value" in said
    parsed = parse(tmp_path, text, Overrides(values_later=True))
    assert [warning.what for warning in parsed.warnings] == ["variable `DATA` has no value yet"]
    assert "--env DATA" in (parsed.warnings[0].hint or "")
    assert dict(parsed.task.groups[0].envs) == {}


def test_secret_given_with_env_is_refused(tmp_path: Path) -> None:
    (said,) = complaints(tmp_path, "secrets: {A: null}\nrun: x", Overrides(envs={"A": "hunter2"}))
    assert "hint: pass it with `--secret A`" in said
    assert "hunter2" not in said


def test_secret_option_sets_a_null_variable_but_does_not_override_a_value(tmp_path: Path) -> None:
    given = Overrides(secrets=frozenset({"A"}))
    task = parse(tmp_path, "envs: {A: null}\nrun: x", given).task
    assert (task.secrets, dict(task.groups[0].envs)) == (("A",), {})
    (said,) = complaints(tmp_path, "envs: {A: 1}\nrun: x", given)
    assert "`A` is given with `--secret`, and has a value here" in said


def test_a_secret_is_for_the_task_of_a_job_group_that_declares_it(tmp_path: Path) -> None:
    """One of the command line alone is for all of them; without documents of their own, all see all."""
    job = (
        "name: job\nexecution: parallel\n---\nname: train\nsecrets: {HF: null}\nrun: x\n"
        "---\nname: serve\nsecrets: {KEY: null}\nrun: x\n"
    )
    given = Overrides(secrets=frozenset({"HF", "KEY", "ALL"}))
    task = parse(tmp_path, job, given).task
    assert task.secrets == ("ALL", "HF", "KEY")
    assert {group.name: task.secrets_of(group) for group in task.groups} == {
        "train": ("ALL", "HF"),
        "serve": ("ALL", "KEY"),
    }
    one = parse(tmp_path, "secrets: {HF: null}\ngroups: {a: {run: x}, b: {run: x}}\n", given).task
    assert {task.secrets_of(group) for group in one.groups} == {("ALL", "HF", "KEY")}


def test_a_secret_is_for_the_tasks_of_a_pipeline_that_name_it(tmp_path: Path) -> None:
    """One of the command line that no task names is for all of them."""
    text = "name: a\nsecrets: {HF: null}\nrun: x\n---\nname: b\nenvs: {KEY: null}\nrun: x\n"
    given = Overrides(secrets=frozenset({"HF", "KEY", "ALL"}))
    first, second = parse_tasks(text, tmp_path / "task.yaml", overrides=given)
    assert first.task.secrets == ("ALL", "HF")
    assert second.task.secrets == ("ALL", "KEY")
