"""`nodes`: what is known of nodes over all runs, and how one that was given up comes back."""

import json
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, FleetFile, Output, Yes, home
from launcher.cli.output.console import agree, refuse, say, show
from launcher.cli.plain import PlainCommand
from launcher.core.model.operator_requests import RequestKind

if TYPE_CHECKING:
    from launcher.store.store import Store

READMIT = "readmit"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(nodes)


def nodes(
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[readmit] NODE", help="Nodes to show in full, or to take back; all without it."),
    ] = None,
    inventory: FleetFile = None,
    output: As = Output.TEXT,
    yes: Yes = False,
) -> None:
    """Show incidents, quarantines and drains of nodes.

    `nodes readmit NODE` ends a quarantine: it is placed on again, and a
    run that waits for it takes it back.

    \b
    Example:
      nvlaunch nodes
      nvlaunch nodes r07-n03
      nvlaunch nodes readmit r07-n03
    """
    from launcher.cli.output.nodes import known, nodes_json, nodes_text
    from launcher.store.store import Store

    store = Store(home())
    if words and words[0] == READMIT:
        _readmit(store, words[1:], inventory, yes=yes)
        return
    found = known(store, _expanded(words or []))
    if output is Output.JSON:
        show(json.dumps(nodes_json(found), indent=2))
    elif found:
        show(nodes_text(found, time.time(), full=bool(words)))
    else:
        say("nothing is held against any node" if not words else "nothing is known of them")


def _readmit(store: "Store", words: Sequence[str], inventory: str | None, *, yes: bool) -> None:
    from launcher.cli.node_arguments import author, named
    from launcher.core.model.nodeset import fold

    if not words:
        refuse("name the node to take back", hint="`nvlaunch nodes` lists what is quarantined")
    meant = named(store, words, inventory)
    fleet = meant.fleet.name
    kept_out = {one.node: one for one in store.ledger.quarantines(fleet)}
    holders = store.holders(fleet)
    given_up = [node for node in meant.nodes if node in holders and node in store.load(holders[node])[1].failed_nodes]
    chosen = [node for node in meant.nodes if node in kept_out or node in given_up]
    if not chosen:
        say(f"nothing keeps {fold(meant.nodes)} out of service")
        return
    for node in chosen:
        if node in kept_out:
            say(f"{node}: {kept_out[node].message}")
    agree(f"take {fold(chosen)} back?", yes=yes)
    for node in chosen:
        store.ledger.readmit(fleet, node, by=author(), at=time.time())
        if node in given_up:
            store.orders.give(holders[node], RequestKind.READMIT, subject=node, by=author(), at=time.time())
    say(f"in service again: {fold(chosen)}; `nvlaunch doctor` asks how they are")


def _expanded(words: Sequence[str]) -> set[str]:
    from launcher.core.model.nodeset import expand

    try:
        return {name for word in words for name in expand(word)}
    except ValueError as error:
        refuse(str(error), hint="a range is written `r07-n[01-18]`")
