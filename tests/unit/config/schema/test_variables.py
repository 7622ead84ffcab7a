"""Values of environment variables."""

from pathlib import Path

import pytest

from tests.unit.config.task.parsing import complaints, parse


@pytest.mark.parametrize("escape", [r"\0", r"\ud800", r"\udc00\ud800"])
def test_text_that_cannot_be_passed_to_a_program_is_refused(tmp_path: Path, escape: str) -> None:
    said = complaints(tmp_path, f'envs: {{A: "x{escape}"}}\nrun: "echo {escape}"')
    assert [one.split(": ", 1)[0] for one in said] == ["DIR/my task.v2.yaml:1:11", "DIR/my task.v2.yaml:2:6"]


def test_two_escapes_of_a_surrogate_pair_are_one_character(tmp_path: Path) -> None:
    task = parse(tmp_path, r'{"run": "echo", "envs": {"A": "\ud83d\ude00"}}').task
    assert dict(task.groups[0].envs) == {"A": "\N{GRINNING FACE}"}


def test_variable_longer_than_the_limit_of_linux_is_refused(tmp_path: Path) -> None:
    assert parse(tmp_path, f"envs: {{A: {'x' * 130_000}}}\nrun: x").task.groups[0].envs["A"] == "x" * 130_000
    (said,) = complaints(tmp_path, f"envs: {{A: {'x' * 130_001}}}\nrun: x")
    assert said.startswith("DIR/my task.v2.yaml:1:11: the value of `envs.A` has 130,001 bytes")
