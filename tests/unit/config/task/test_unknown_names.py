"""Racks and nodes of a task that the inventory does not have."""

from pathlib import Path

from launcher.config.inventory.built_in import built_in
from launcher.config.task.unknown_names import unknown_names
from tests.unit.config.task.parsing import parse


def test_unknown_rack_or_node_is_reported_with_its_position(tmp_path: Path) -> None:
    text = "run: x\ntopology: {racks: [r1, 'r*', rack7], exclude_nodes: ['r1-n[01-03]', 'r1-n[1-9]']}"
    parsed = parse(tmp_path, text)
    said = unknown_names(parsed.task, built_in(), where="task.yaml", marks=parsed.marks)
    assert [str(mistake) for mistake in said] == [
        (
            "task.yaml:2:19: `racks`: `rack7` is not a rack of inventory `local`\n"
            "  hint: `nvlaunch racks -o json` lists the racks"
        ),
        (
            "task.yaml:2:53: `exclude_nodes`: `r1-n[01-03]` is not a node of inventory `local`\n"
            "  hint: did you mean `r1-n3`?"
        ),
    ]
