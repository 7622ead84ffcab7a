"""Nodes and runs as operators name them.

Which inventory they are in, and what uses them.
"""

import difflib
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.admission.node_checks import HEAD, head_of
from launcher.cli.output.console import clean, say, warn
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, expand, fold
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.errors import Mistake, SpecError, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.store.rows import RunRow
    from launcher.store.store import Store

HEAD_WORD = "head"
"""What operators call the machine for Ray heads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundNodes:
    """Nodes that were named, and their inventory.

    `head`: the machine for Ray heads was named too.
    """

    fleet: Inventory
    nodes: tuple[NodeName, ...]
    head: bool = False


def find_nodes(store: "Store", words: Sequence[str], inventory: str | None, *, head: bool = False) -> FoundNodes:
    """Return the named nodes and racks.

    They are looked up in `inventory`, else in the only known inventory that has all of them.

    Known are those of runs, and the one that a new run would use. SpecError where none has them, or several do; also
    for the machine for Ray heads, unless `head`.
    """
    found: dict[str, FoundNodes] = {}
    wrong: list[SpecError] = []
    for fleet in _fleets(store, inventory):
        try:
            chosen = [node.name for node in select_nodes(fleet, words)]
        except SpecError as error:
            wrong.append(error)
            continue
        if HEAD in chosen and not head:
            refuse(f"`{HEAD_WORD}` is not a node", hint="it has no ranks, and nothing is placed on it")
        nodes = tuple(name for name in chosen if name != HEAD)
        found.setdefault(fleet.name, FoundNodes(fleet=fleet, nodes=nodes, head=HEAD in chosen))
    if not found:
        raise wrong[0]
    if len(found) > 1:
        names = ", ".join(f"`{name}`" for name in sorted(found))
        sources = sorted(one.fleet.source for one in found.values())
        options = " or ".join(f"`-i {source}`" for source in sources if not source.startswith("<"))
        refuse(f"several inventories have such nodes: {names}", hint=f"select one with {options or '`-i FILE`'}")
    return next(iter(found.values()))


def select_nodes(fleet: Inventory, words: Sequence[str]) -> list[Node]:
    """Return the nodes that words name, in the order of the inventory.

    All, with the machine for heads, for no words.

    SpecError for unknown names.
    """
    head = head_of(fleet)
    nodes = [*fleet.nodes, *([head] if head else ())]
    if not words:
        return nodes
    known: dict[str, set[str]] = {node.name: {node.name} for node in fleet.nodes}
    for node in fleet.nodes:
        known.setdefault(node.rack, set()).add(node.name)
    if head:
        known.setdefault(HEAD_WORD, set()).add(HEAD)
    chosen = _names(words, known)
    return [node for node in nodes if node.name in chosen]


def expand_words(words: Iterable[str]) -> list[str]:
    """Return the names in words and ranges, each once.

    SpecError for a malformed range.
    """
    try:
        return list(dict.fromkeys(name for word in words for name in expand(word)))
    except ValueError as error:
        refuse(str(error), hint="write a range as `r07-n[01-18]`")


def show_use(store: "Store", found: FoundNodes) -> "list[RunRow]":
    """Write what runs use the nodes for; return those runs."""
    holders = store.holders(found.fleet.name)
    runs = {run: store.load(run) for run in dict.fromkeys(holders[node] for node in found.nodes if node in holders)}
    alike: dict[str, list[NodeName]] = {}
    for node in found.nodes:
        if node in holders:
            alike.setdefault(_use(*runs[holders[node]], node), []).append(node)
    for use, names in alike.items():
        say(clean(f"{fold(names)}: {use}"))
    return [store.find(run) for run in runs]


def warn_undriven(rows: "Iterable[RunRow]") -> None:
    """Warn of runs without a live controller."""
    for row in rows:
        if not (row.owner and row.owner.alive()):
            warn(f"run `{row.name}` has no controller; `nvlaunch watch {row.name}` starts one")


def active_run(store: "Store", word: str) -> "RunRow":
    """Return a run that has not ended; SpecError for one that has."""
    row = store.find(word)
    if row.ended is not None:
        refuse(f"run `{row.name}` has ended: {row.state.value}", hint="`nvlaunch up FILE` starts it again")
    return row


def _use(run: Run, record: Record, node: NodeName) -> str:
    """Return what a run uses a node for."""
    ranks = [slot.member for slot in record.slots.values() if slot.node == node]
    if ranks:
        return f"rank {', '.join(f'`{rank}`' for rank in ranks)} of `{run.name}`"
    return f"spare of `{run.name}`" if node in run.placement.nodes else f"being released by `{run.name}`"


def _names(words: Iterable[str], known: "dict[str, set[str]]") -> set[str]:
    chosen: set[str] = set()
    mistakes: list[Mistake] = []
    for word in words:
        try:
            names = expand(word)
        except ValueError as error:
            mistakes.append(Mistake(what=str(error), hint="write a range as `r07-n[01-18]`"))
            continue
        for name in names:
            if name in known:
                chosen |= known[name]
            else:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "`nvlaunch racks` lists them"
                mistakes.append(Mistake(what=f"no node or rack is named `{name}`", hint=hint))
    if mistakes:
        raise SpecError(tuple(mistakes))
    return chosen


def _fleets(store: "Store", inventory: str | None) -> Iterator[Inventory]:
    from launcher.config.inventory.read import BUILT_IN, VARIABLE, find_inventory

    usual = find_inventory(inventory, os.environ, home())
    if inventory is not None or os.environ.get(VARIABLE):
        yield usual
        return
    # The built-in racks are a default, not a choice: they count only where no run was placed on another inventory.
    kept = [kept.inventory for kept in store.inventories.all()]
    if usual.source != BUILT_IN or not kept:
        yield usual
    yield from kept
