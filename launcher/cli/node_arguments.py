"""Nodes as people name them: which inventory they are of, and who asks."""

import getpass
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from launcher.cli.options import home
from launcher.cli.output.console import refuse
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.record import Record
from launcher.core.model.run import Run
from launcher.errors import SpecError

if TYPE_CHECKING:
    from launcher.store.store import Store


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """Nodes that were named, and the inventory that has them; `head`: the machine for Ray heads was named too."""

    fleet: Inventory
    nodes: tuple[NodeName, ...]
    head: bool = False


def named(store: "Store", words: Sequence[str], inventory: str | None, *, head: bool = False) -> Named:
    """Return the nodes and racks that were named: of the inventory given, else of the one that has them all, be it that
    of a run or the one that a new run would use. SpecError where none has, or several do; and for the machine for Ray
    heads, unless that may be meant (`head`)."""
    from launcher.admission.node_checks import HEAD
    from launcher.cli.commands.doctor import HEAD_WORD, choose

    found: dict[str, Named] = {}
    wrong: list[SpecError] = []
    for fleet in _fleets(store, inventory):
        try:
            chosen = [node.name for node in choose(fleet, words)]
        except SpecError as error:
            wrong.append(error)
            continue
        if HEAD in chosen and not head:
            refuse(f"`{HEAD_WORD}` is no node", hint="its machine holds no ranks, and nothing is placed on it")
        nodes = tuple(name for name in chosen if name != HEAD)
        found.setdefault(fleet.name, Named(fleet=fleet, nodes=nodes, head=HEAD in chosen))
    if not found:
        raise wrong[0]
    if len(found) > 1:
        names = ", ".join(f"`{name}`" for name in sorted(found))
        refuse(f"several inventories have such a node: {names}", hint="name the one that is meant with `-i FILE`")
    return next(iter(found.values()))


def author() -> str:
    """Return who gives an order, for people."""
    try:
        return f"{getpass.getuser()}@{socket.gethostname()}"
    except (KeyError, OSError):  # a user without a line in passwd(5)
        return f"uid {os.getuid()}@{socket.gethostname()}"


def slot_words(run: Run, record: Record, node: NodeName) -> str:
    """Return what a node is to a run: the rank that it holds, or a spare."""
    ranks = [slot.member for slot in record.slots.values() if slot.node == node]
    if ranks:
        return f"holds {', '.join(f'`{rank}`' for rank in ranks)} of `{run.name}`"
    return f"is a spare of `{run.name}`" if node in run.placement.nodes else f"is being let go by `{run.name}`"


def _fleets(store: "Store", inventory: str | None) -> Iterator[Inventory]:
    from launcher.config.inventory.read import BUILT_IN, VARIABLE, find_inventory

    usual = find_inventory(inventory, os.environ, home())
    if inventory is not None or os.environ.get(VARIABLE):
        yield usual
        return
    # The built-in racks are what nobody chose: they count only where no run was placed on others.
    kept = [kept.inventory for kept in store.fleets.all()]
    if usual.source != BUILT_IN or not kept:
        yield usual
    yield from kept
