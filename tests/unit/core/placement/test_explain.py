"""Explanations: a row for each rack, of a task that does not fit and of one that does."""

from launcher.core.model.placement import UnavailableNodes
from launcher.core.model.task import Group, Task
from launcher.core.placement.explain import survey
from tests.unit.core.placement.builders import but, fleet, group, placed, refused, used


def test_each_nvlink_domain_of_a_rack_has_a_row() -> None:
    short = refused(fleet("r10=4", "r2=6/2"), group(nodes=5))
    assert [(row.rack, row.free) for row in short.racks] == [
        ("r2 (domain r2.a)", 2),
        ("r2 (domain r2.b)", 4),
        ("r10", 4),
    ]
    assert short.largest == 4


def test_another_accelerator_is_named() -> None:
    (row,) = refused(but(fleet("r1=2"), "r1-n02", accelerator=None), group(accelerator="H100")).racks
    assert row.accelerators == {"GB300": 1, "unknown": 1}


def surveyed(unavailable: UnavailableNodes, *groups: Group) -> list[tuple[str, str, int, str]]:
    inventory, task = fleet("r1=4", "r2=2", "r3=6", "r4=4", "r5=1"), Task(name="task", groups=groups)
    placement = placed(inventory, *groups, unavailable=unavailable)
    rows = survey(task, inventory, unavailable, placement)
    return [(row.group, row.before.rack, row.left, row.reason) for row in rows]


def test_a_survey_says_of_each_rack_why_it_was_selected_or_not() -> None:
    assert surveyed(used(x="r5-n01"), group(nodes=4)) == [
        ("main", "r1", 0, "selected"),
        ("main", "r2", 2, "a slice needs 4 nodes"),
        ("main", "r3", 6, "fits; kept for larger jobs"),
        ("main", "r4", 4, "fits; not needed"),
        ("main", "r5", 0, "no free node"),
    ]


def test_a_survey_says_which_rule_of_the_task_excludes_a_rack() -> None:
    rows = surveyed({}, group("a", nodes=4), group("b", near="a"))
    assert [(rack, reason) for name, rack, _, reason in rows if name == "b"] == [
        ("r1", "excluded by `near`"),
        ("r2", "excluded by `near`"),
        ("r3", "selected"),
        ("r4", "excluded by `near`"),
        ("r5", "excluded by `near`"),
    ]
