"""The table of keys against the types of the core."""

from pathlib import Path

from launcher.config.schema.fields import Section
from launcher.config.task.fields import RECOVERY, TASK
from launcher.core.model.task import OnNoSpare, RecoveryPolicy, RestartWith, Task
from tests.unit.config.task.parsing import parse


def test_defaults_of_the_table_equal_those_of_the_core_types(tmp_path: Path) -> None:
    task = parse(tmp_path, "run: x").task
    assert (task.stop_signal, task.stop_grace) == (Task(name="", groups=()).stop_signal, 60.0)
    assert (TASK.fields["stop_signal"].default, TASK.fields["stop_grace"].default) == ("TERM", 60)
    assert task.groups[0].recovery == RecoveryPolicy()
    shown = {name: RECOVERY.fields[name].default for name in ("max_restarts", "node_attempts")}
    assert shown == {"max_restarts": RecoveryPolicy().max_restarts, "node_attempts": RecoveryPolicy().node_attempts}
    assert RECOVERY.fields["restart_with"].default == RestartWith.RUN.value
    assert RECOVERY.fields["on_no_spare"].default == OnNoSpare.WAIT.value


def test_every_ignored_or_refused_key_has_a_reason() -> None:
    def rows(section: Section) -> list[str]:
        inner = [row for one in section.fields.values() if isinstance(one.type, Section) for row in rows(one.type)]
        silent = {
            name for name, row in section.fields.items() if row.use.name in ("IGNORED", "REFUSED") and not row.why
        }
        return [*inner, *silent]

    assert rows(TASK) == []
