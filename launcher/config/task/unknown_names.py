"""Warnings about racks and nodes that are not in the inventory."""

import difflib
from collections.abc import Iterator, Mapping, Sequence

from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task, TopologyRule
from launcher.core.placement.filters import NamePattern
from launcher.errors import Mistake

NAME_KEYS = ("racks", "exclude_racks", "nodes", "exclude_nodes")
"""The keys of `topology` that name racks or nodes."""


def unknown_names(
    task: Task, inventory: Inventory, *, where: str = "", marks: Mapping[tuple[str, str], Mark] | None = None
) -> tuple[Mistake, ...]:
    """Return a warning for each name that matches nothing in the inventory.

    It is not a mistake: one task may name the machines of several inventories. `where` and `marks` are those of the
    ParsedTask, for positions in its file.
    """
    racks = list(dict.fromkeys(node.rack for node in inventory.nodes))
    nodes = [node.name for node in inventory.nodes]
    found: list[Mistake] = []
    for group in task.groups:
        own = where or f"group `{group.name}`"
        for key, texts in _named(group.topology):
            mark = (marks or {}).get((group.name, key), NOWHERE)
            what, known = ("rack", racks) if key.endswith("racks") else ("node", nodes)
            found += (
                Mistake(
                    what=f"`{key}`: `{text}` is not a {what} of inventory `{inventory.name}`",
                    where=own,
                    line=mark.line,
                    column=mark.column,
                    hint=_hint(text, what, known),
                )
                for text in texts
                if not any(map(NamePattern((text,)).matches, known))
            )
    return tuple(found)


def _named(rule: TopologyRule) -> Iterator[tuple[str, Sequence[str]]]:
    texts = (rule.racks, rule.exclude_racks, rule.only_nodes, rule.exclude_nodes)
    return zip(NAME_KEYS, texts, strict=True)


def _hint(text: str, what: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(text, known, n=1)
    return f"did you mean `{near[0]}`?" if near else f"`nvlaunch racks -o json` lists the {what}s"
