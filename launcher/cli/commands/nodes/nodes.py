"""`nodes`: the history of nodes over all runs, and the end of quarantines."""

import json
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, FleetFile, Output, Yes
from launcher.cli.output.console import agree, say, show
from launcher.cli.plain import PlainCommand
from launcher.core.model.operator_requests import RequestKind
from launcher.errors import refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.store.store import Store

READMIT = "readmit"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(nodes)


def nodes(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[readmit] NODE", help="Nodes to show in full, or to readmit (default: all)."),
    ] = None,
    inventory: FleetFile = None,
    output: As = Output.TEXT,
    yes: Yes = False,
) -> None:
    """Show incidents, quarantines and drains of nodes.

    `nodes readmit NODE` ends a quarantine: runs may be placed on the node
    again, and a run that waits for it takes it back.

    \b
    Example:
      nvlaunch nodes
      nvlaunch nodes r07-n03
      nvlaunch nodes readmit r07-n03
    """
    from launcher.cli.node_arguments import expand_words, find_nodes
    from launcher.cli.output.nodes import node_records, nodes_json, nodes_text
    from launcher.config.inventory.read import find_inventory
    from launcher.store.store import Store

    store = Store(home())
    if words and words[0] == READMIT:
        _readmit(store, words[1:], inventory, yes=yes)
        return
    only = None if inventory is None else find_inventory(inventory, os.environ, store.home).name
    found = node_records(store, set(expand_words(words or [])), only)
    if words and not found:
        find_nodes(store, words, inventory)  # refuses names that no inventory has
    if output is Output.JSON:
        show(json.dumps(nodes_json(found), indent=2))
    elif found:
        show(nodes_text(found, time.time(), full=bool(words)))
    else:
        say("no incidents, quarantines or drains")


def _readmit(store: "Store", words: Sequence[str], inventory: str | None, *, yes: bool) -> None:
    from launcher.cli.node_arguments import find_nodes
    from launcher.core.model.nodeset import fold
    from launcher.store.user import User

    if not words:
        refuse("name the nodes to readmit", hint="`nvlaunch nodes` lists quarantined nodes")
    found = find_nodes(store, words, inventory)
    fleet = found.fleet.name
    quarantined = {one.node: one for one in store.ledger.quarantines(fleet)}
    holders = store.holders(fleet)
    excluded = [node for node in found.nodes if node in holders and node in store.load(holders[node])[1].failed_nodes]
    chosen = [node for node in found.nodes if node in quarantined or node in excluded]
    if not chosen:
        say(f"not quarantined: {fold(found.nodes)}")
        return
    for node in chosen:
        if node in quarantined:
            say(f"{node}: {quarantined[node].message}")
    agree(f"readmit {fold(chosen)}?", yes=yes)
    by = str(User.current())
    for node in chosen:
        store.ledger.readmit(fleet, node, by=by, at=time.time())
        if node in excluded:
            store.requests.add(holders[node], RequestKind.READMIT, subject=node, by=by, at=time.time())
    say(f"readmitted {fold(chosen)}; check with `nvlaunch doctor`")
