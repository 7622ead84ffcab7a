"""`drain` and `undrain`: take nodes out of service, and return them."""

import time
from typing import Annotated

import typer

from launcher.cli.options import FleetFile, Yes
from launcher.cli.output.console import agree, say, warn
from launcher.cli.plain import PlainCommand
from launcher.store.home import home

NodeWords = Annotated[list[str], typer.Argument(metavar="NODE", help="Nodes, ranges such as `r07-n[01-04]`, or racks.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=PlainCommand)(drain)
    app.command(cls=PlainCommand)(undrain)


def drain(
    nodes: NodeWords,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why the nodes are drained.")
    ] = "drained by operator",
    inventory: FleetFile = None,
    yes: Yes = False,
) -> None:
    """Take nodes out of service.

    Nothing new is placed on them. Ranks on them get the task's stop
    signal and its grace period, and move to a spare; without a spare they
    stay, and the status of the run says so.

    \b
    Example:
      nvlaunch drain r07-n03 --reason 'bad NVLink, ticket 17'
    """
    from launcher.cli.node_arguments import find_nodes, show_use, warn_undriven
    from launcher.core.model.nodeset import fold
    from launcher.core.model.text import count
    from launcher.store.ledger import Drain
    from launcher.store.store import Store
    from launcher.store.user import User

    store = Store(home())
    found = find_nodes(store, nodes, inventory)
    rows = show_use(store, found)
    agree(f"drain {fold(found.nodes)} of `{found.fleet.name}`?", yes=yes)
    drained = Drain(node=found.nodes[0], reason=reason, at=time.time(), by=str(User.current()))
    store.ledger.drain(found.fleet.name, found.nodes, drained)
    say(f"drained {count(len(found.nodes), 'node')} of `{found.fleet.name}`: {fold(found.nodes)}")
    warn_undriven(rows)


def undrain(nodes: NodeWords, inventory: FleetFile = None) -> None:
    """Return drained nodes to service.

    \b
    Example:
      nvlaunch undrain r07-n03
    """
    from launcher.cli.node_arguments import find_nodes
    from launcher.core.model.nodeset import fold
    from launcher.store.store import Store
    from launcher.store.user import User

    store = Store(home())
    found = find_nodes(store, nodes, inventory)
    lifted = store.ledger.undrain(found.fleet.name, found.nodes, by=str(User.current()), at=time.time())
    if lifted:
        say(f"returned to service: {fold(lifted)}")
    written = [node.name for node in found.fleet.nodes if node.name in found.nodes and node.drained is not None]
    if written:
        warn(f"{fold(written)}: still drained in {found.fleet.source}; remove `drained:` there")
    elif not lifted:
        say("no such node was drained")
