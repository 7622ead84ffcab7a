"""Read a task from text, for tests."""

from pathlib import Path

import pytest

from launcher.config.task.envs import Overrides
from launcher.config.task.read import ParsedTask, read_task
from launcher.errors import SpecError


def parse(folder: Path, text: str, given: Overrides | None = None) -> ParsedTask:
    path = folder / "my task.v2.yaml"
    path.write_text(text)
    return read_task(path, overrides=given)


def complaints(folder: Path, text: str, given: Overrides | None = None) -> list[str]:
    with pytest.raises(SpecError) as refusal:
        parse(folder, text, given)
    return [str(mistake).replace(str(folder), "DIR") for mistake in refusal.value.mistakes]
