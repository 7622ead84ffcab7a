"""Whether an inventory has the levels that a task names."""

import difflib
from collections.abc import Mapping

from launcher.core.fleet import ANY_LEVEL, NODE_LEVEL, Inventory
from launcher.core.task import Task
from launcher.errors import Mistake, SpecError
from launcher.spec.nodes import NOWHERE, Mark


def check_levels(
    task: Task, inventory: Inventory, *, where: str = "", places: Mapping[tuple[str, str], Mark] | None = None
) -> None:
    """Raise SpecError when a group names a level that the inventory does not have.

    `where` and `places` are those of the ParsedTask, for messages that point into its file.
    """
    known = [*inventory.levels, NODE_LEVEL, ANY_LEVEL]
    mistakes = []
    for group in task.groups:
        rule = group.topology
        for key, level in (("within", rule.within), ("prefer", rule.prefer), ("spread", rule.spread)):
            if level is not None and level not in known:
                mark = (places or {}).get((group.name, key), NOWHERE)
                mistakes.append(_unknown(key, level, mark, where or f"group `{group.name}`", inventory, known))
    if mistakes:
        raise SpecError(tuple(mistakes))


def _unknown(key: str, level: str, mark: Mark, where: str, inventory: Inventory, known: list[str]) -> Mistake:
    near = difflib.get_close_matches(level, known, n=1)
    has = ", ".join(f"`{name}`" for name in known)
    return Mistake(
        what=f"`{key}: {level}` is no level of inventory `{inventory.name}`",
        where=where,
        line=mark.line,
        column=mark.column,
        hint=f"did you mean `{near[0]}`?" if near else f"its levels are {has}; `-i` chooses another inventory",
    )
