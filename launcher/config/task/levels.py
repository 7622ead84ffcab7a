"""Check that an inventory has the levels that a task names, in a possible order."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, Inventory
from launcher.core.model.task import Task, TopologyRule
from launcher.errors import Mistake, SpecError

LEVEL_KEYS = ("within", "prefer", "balance", "spread", "spread_members", "exclusive")
"""The keys of `topology` that name a level."""


def check_levels(
    task: Task, inventory: Inventory, *, where: str = "", marks: Mapping[tuple[str, str], Mark] | None = None
) -> None:
    """Raise SpecError for levels that are unknown or contradict each other.

    `where` and `marks` are those of the ParsedTask, for positions in its file.
    """
    known = [*inventory.levels, NODE_LEVEL, ANY_LEVEL]
    mistakes: list[Mistake] = []
    for group in task.groups:
        own = where or f"group `{group.name}`"
        at = {key: (marks or {}).get((group.name, key), NOWHERE) for key in LEVEL_KEYS}
        unknown = [(key, level) for key, level in _named(group.topology) if level not in known]
        mistakes += (_unknown(key, level, at[key], own, inventory, known) for key, level in unknown)
        if not unknown:
            order = [ANY_LEVEL, *inventory.levels, NODE_LEVEL]
            mistakes += (
                Mistake(what=what, where=own, line=at[key].line, column=at[key].column, hint=hint)
                for key, what, hint in _contradictions(group.topology, order)
            )
    if mistakes:
        raise SpecError(tuple(mistakes))


def check_compared(levels: Sequence[str], inventory: Inventory) -> None:
    """Raise SpecError for levels of `--compare` that the inventory does not have."""
    known = [*inventory.levels, NODE_LEVEL, ANY_LEVEL]
    mistakes = [_unknown("within", one, NOWHERE, "--compare", inventory, known) for one in levels if one not in known]
    if mistakes:
        raise SpecError(tuple(mistakes))


def _named(rule: TopologyRule) -> Iterator[tuple[str, str]]:
    """Yield every level that a rule names, with its key."""
    named = {
        "within": (rule.within, rule.all_within),
        "prefer": (rule.prefer,),
        "balance": (rule.balance,),
        "spread": (rule.spread,),
        "spread_members": (rule.spread_members,),
        "exclusive": (rule.exclusive,),
    }
    yield from ((key, level) for key, levels in named.items() for level in levels if level is not None)


def _contradictions(rule: TopologyRule, order: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Yield key, message and hint of impossible rules.

    `order` has the levels from coarse to fine.
    """
    if rule.all_within is not None and order.index(rule.all_within) >= order.index(rule.within):
        what = f"`within: [{rule.all_within}, {rule.within}]`: `{rule.all_within}` is not above `{rule.within}`"
        yield "within", what, "write the level of all slices first, then the level of each slice"
    if rule.spread == ANY_LEVEL and rule.slices > 1:
        yield "spread", f"`spread: any` cannot separate {rule.slices} slices: all nodes are in one domain", _FINER
    apart = rule.spread_members
    if apart is None or rule.nodes_per_slice + rule.spares == 1:
        return
    if order.index(apart) <= order.index(rule.within):
        what = f"`spread_members: {apart}` is not below `within: {rule.within}`: a slice could have only one node"
        yield "spread_members", what, _FINER


_FINER = "use a finer level"


def _unknown(key: str, level: str, mark: Mark, where: str, inventory: Inventory, known: list[str]) -> Mistake:
    near = difflib.get_close_matches(level, known, n=1)
    has = ", ".join(f"`{name}`" for name in known)
    return Mistake(
        what=f"`{key}: {level}` is not a level of inventory `{inventory.name}`",
        where=where,
        line=mark.line,
        column=mark.column,
        hint=f"did you mean `{near[0]}`?" if near else f"its levels are {has}; choose another inventory with `-i`",
    )
