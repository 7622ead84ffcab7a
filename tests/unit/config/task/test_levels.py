"""Levels of a task against those of an inventory."""

import re
from pathlib import Path

import pytest

from launcher.config.inventory.built_in import built_in
from launcher.config.task.levels import check_levels
from launcher.errors import SpecError
from tests.unit.config.task.parsing import parse


def test_unknown_level_is_reported_with_its_position(tmp_path: Path) -> None:
    text = "run: x\ntopology: {within: rak, prefer: zone, spread: node}"
    parsed = parse(tmp_path, text)
    with pytest.raises(SpecError) as refusal:
        check_levels(parsed.task, built_in(), where="task.yaml", marks=parsed.marks)
    assert [str(mistake) for mistake in refusal.value.mistakes] == [
        "task.yaml:2:20: `within: rak` is not a level of inventory `local`\n  hint: did you mean `rack`?",
        (
            "task.yaml:2:33: `prefer: zone` is not a level of inventory `local`\n"
            "  hint: its levels are `rack`, `node`, `any`; choose another inventory with `-i`"
        ),
    ]


@pytest.mark.parametrize(
    ("topology", "said"),
    [
        ("within: [rack, rack]", "`within: [rack, rack]`: `rack` is not above `rack`"),
        ("within: [node, rack]", "`within: [node, rack]`: `node` is not above `rack`"),
        (
            "nodes_per_slice: 2, spread_members: rack",
            "`spread_members: rack` is not below `within: rack`: a slice could",
        ),
        ("slices: 2, nodes_per_slice: 1, spread: any", "`spread: any` cannot separate 2 slices"),
    ],
)
def test_contradicting_levels_are_refused(tmp_path: Path, topology: str, said: str) -> None:
    parsed = parse(tmp_path, f"run: x\ntopology: {{{topology}}}")
    with pytest.raises(SpecError, match=re.escape(said)):
        check_levels(parsed.task, built_in(), where="task.yaml", marks=parsed.marks)


def test_levels_of_the_inventory_are_accepted(tmp_path: Path) -> None:
    for level in ("rack", "node", "any"):
        check_levels(parse(tmp_path, f"run: x\ntopology: {{within: {level}}}").task, built_in())
