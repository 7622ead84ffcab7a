"""`confirm-dead`: an operator's word that unreachable nodes are powered off."""

import json
import time
from typing import TYPE_CHECKING

import typer

from launcher.cli.commands.nodes.drain import NodeWords
from launcher.cli.options import FleetFile, Yes
from launcher.cli.output.console import agree, say, warn
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.core.model.run import RunId
    from launcher.store.rows import RunRow


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("confirm-dead", cls=PlainCommand)(confirm_dead)


def confirm_dead(nodes: NodeWords, inventory: FleetFile = None, yes: Yes = False) -> None:
    """Confirm that unreachable nodes are powered off.

    For nodes that nothing else can prove to be off; `head` means the
    machine for Ray heads. Their ranks restart elsewhere at once. If a
    node is still running, its old rank and the new one may both write to
    shared storage.

    \b
    Example:
      nvlaunch confirm-dead r07-n03
    """
    from launcher.cli.node_arguments import HEAD_WORD, find_nodes, show_use, warn_undriven
    from launcher.core.model.nodeset import fold
    from launcher.core.model.operator_requests import RequestKind
    from launcher.store.store import Store
    from launcher.store.user import User

    store = Store(home())
    found = find_nodes(store, nodes, inventory, head=True)
    holders = store.holders(found.fleet.name)
    dead: list[tuple[RunId, str]] = [(holders[node], node) for node in found.nodes if node in holders]
    if found.head:
        dead += [(run, HEAD_WORD) for run in dict.fromkeys(holders.values())]
    if not dead:
        refuse(f"no run uses {fold(nodes)}", hint="`nvlaunch status RUN` lists the nodes of a run")
    rows = show_use(store, found)
    names = fold(name for _, name in dead)
    _warn_running(rows, {name for _, name in dead})
    say("ranks restart elsewhere at once; if a node is still running, two copies may write to the same checkpoint")
    say("confirm only if the power is off, or the node can reach neither storage nor network")
    agree(f"is {names} powered off?", yes=yes)
    for run, name in dead:
        store.requests.add(run, RequestKind.CONFIRM_DEAD, subject=name, by=str(User.current()), at=time.time())
    say(f"confirmed dead: {names}")
    warn_undriven(rows)


def _warn_running(rows: "list[RunRow]", names: set[str]) -> None:
    """Warn of nodes that controllers can see: the confirmation has no effect on them."""
    from launcher.core.model.nodeset import fold
    from launcher.store.rows import readable

    for row in rows:
        with readable(row.id):
            ranks = [(rank["node"], rank["state"]) for rank in json.loads(row.snapshot)["ranks"]]
        if seen := sorted(node for node, state in ranks if node in names and state == "running"):
            warn(f"ranks of `{row.name}` are running on {fold(seen)}: no effect while its controller sees them")
