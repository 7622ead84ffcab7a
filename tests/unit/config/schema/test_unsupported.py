"""A key of the table is refused; any other key has its value in the core types."""

from collections.abc import Callable
from pathlib import Path

import pytest

from launcher.config.schema.unsupported import UNSUPPORTED
from launcher.config.task.read import read_task
from launcher.core.model.task import OnNoSpare, RestartWith, Task
from launcher.errors import SpecError

RUN = "run: echo\n"
DRIVER = "driver: python a.py\n"
# key: a file that has it, and what the core must then have
ARRIVES: dict[str, tuple[str, Callable[[Task], object], object]] = {
    "driver": (DRIVER, lambda task: task.groups[0].driver, "python a.py"),
    "reserve": (DRIVER + "reserve: true", lambda task: task.groups[0].reserve, True),
    "restart_with": (
        RUN + "recovery: {restart_with: group}",
        lambda task: task.groups[0].recovery.restart_with,
        RestartWith.GROUP,
    ),
    "on_no_spare": (
        RUN + "recovery: {on_no_spare: fail}",
        lambda task: task.groups[0].recovery.on_no_spare,
        OnNoSpare.FAIL,
    ),
    "hang_after": (RUN + "recovery: {hang_after: 10m}", lambda task: task.groups[0].recovery.hang_after, 600.0),
    "on_event": (RUN + "on_event: ./notify.sh", lambda task: task.on_event, "./notify.sh"),
    "time_limit": (RUN + "time_limit: 12:30:00", lambda task: task.time_limit, 45000.0),
    "priority": (RUN + "resources: {priority: 5}", lambda task: task.priority, 5),
    "movable": (RUN + "movable: true", lambda task: task.movable, True),
    "preemptible": (RUN + "preemptible: true", lambda task: task.preemptible, True),
}


def test_every_key_of_the_table_is_tested() -> None:
    assert set(UNSUPPORTED) <= set(ARRIVES)


@pytest.mark.parametrize("key", ARRIVES)
def test_key_is_refused_or_has_its_value_in_the_core(tmp_path: Path, key: str) -> None:
    path = tmp_path / "task.yaml"
    text, of, value = ARRIVES[key]
    path.write_text(text)
    if key not in UNSUPPORTED:
        assert of(read_task(path).task) == value
        return
    with pytest.raises(SpecError) as refusal:
        read_task(path)
    said = [one for one in refusal.value.mistakes if f"{key}`" in one.what or f"{key}: " in one.what]
    assert [(one.what.endswith("is not supported by this version"), one.hint) for one in said] == [
        (True, UNSUPPORTED[key])
    ]
