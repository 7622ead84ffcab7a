"""`repair`: reset GPUs or reboot a node, as its driver requests."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from launcher.cli.options import FleetFile, Yes
from launcher.cli.output.console import agree, clean, say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import ConflictError, ExitCode, RemoteError, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.repair import Remedy
    from launcher.core.model.inventory import Inventory, Node
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(repair)


def repair(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node that no run uses.")],
    inventory: FleetFile = None,
    yes: Yes = False,
) -> None:
    """Reset GPUs or reboot an idle node.

    Does what its GPU driver requests, if `sudo -n` is allowed there;
    otherwise prints the commands to run as root. The node is drained
    meanwhile.

    \b
    Example:
      nvlaunch repair r07-n03
    """
    from launcher.admission.repair import Cure, find_remedy, has_sudo, inspect_idle
    from launcher.cli.output.progress import ProbeProgress
    from launcher.drive.adapters import open_prober
    from launcher.store.store import Store

    store = Store(home())
    fleet, meant = _node(store, node, inventory)
    prober = open_prober(home(), fleet)
    try:
        one = inspect_idle(fleet, meant, prober, ProbeProgress(quiet=True))
        found = find_remedy(one)
        if found is None:
            say(f"`{meant.name}` needs no repair; check it with `nvlaunch doctor {meant.name}`")
            return
        say(clean(f"{meant.name}: {found.message}"))
        if found.cure is None or not has_sudo(one):
            _leave_to_root(meant, found)
        agree(f"{found.cure.value} `{meant.name}`?", yes=yes)
        with _drained(store, fleet, meant, found) as ours:
            _apply(fleet, meant, found)
        if found.cure is Cure.REBOOT:
            say(f"rebooting `{meant.name}`; next: `nvlaunch doctor {meant.name}`, then `nvlaunch undrain {meant.name}`")
            return
        if (left := find_remedy(inspect_idle(fleet, meant, prober, ProbeProgress(quiet=True)))) is not None:
            raise RemoteError(f"the driver still requests: {left.message}", node=meant.name, stage="repair")
        _conclude(store, fleet, meant, ours=ours)
    finally:
        prober.close()


def _node(store: "Store", word: str, inventory: str | None) -> "tuple[Inventory, Node]":
    from launcher.cli.node_arguments import find_nodes

    meant = find_nodes(store, [word], inventory)
    if len(meant.nodes) != 1:
        refuse(f"`{word}` names {len(meant.nodes)} nodes", hint="repair one node at a time")
    if not meant.fleet.capabilities.own_machines:
        refuse(f"`{word}` is not a machine", hint="only nodes of an inventory with `transport: ssh` can be repaired")
    run = store.holders(meant.fleet.name).get(meant.nodes[0])
    if run is not None:
        hint = f"`nvlaunch drain {word}` moves the run to a spare"
        raise ConflictError(f"run `{run}` uses `{word}`", holder=run, hints=(hint,))
    return meant.fleet, next(node for node in meant.fleet.nodes if node.name == meant.nodes[0])


def _leave_to_root(node: "Node", found: "Remedy") -> NoReturn:
    """Print the commands for an administrator."""
    for command in found.commands:
        show(shlex.join(("ssh", "-t", node.access.address, "sudo", *command)))
    if not found.commands:
        refuse(f"cannot repair `{node.name}` from here", hint="see the manual of the GPU driver for this request")
    say("`sudo -n` is not allowed there: run this with sudo rights")
    raise typer.Exit(ExitCode.REMOTE)


@contextmanager
def _drained(store: "Store", fleet: "Inventory", node: "Node", found: "Remedy") -> Iterator[bool]:
    """Keep the node drained during the repair.

    Return whether this drain is new, and may be ended afterwards.
    """
    from launcher.store.ledger import Drain
    from launcher.store.user import User

    ours = node.name not in store.ledger.drained(fleet.name)
    if ours:
        drain = Drain(node=node.name, reason=f"repair: {found.message}", at=time.time(), by=str(User.current()))
        store.ledger.drain(fleet.name, [node.name], drain)
    run = store.holders(fleet.name).get(node.name)
    if run is not None:
        raise ConflictError(f"run `{run}` has just started to use `{node.name}`", holder=run)
    yield ours


def _apply(fleet: "Inventory", node: "Node", found: "Remedy") -> None:
    from launcher.admission.repair import apply
    from launcher.transport.open import open_shell

    shell = open_shell(home(), fleet)
    try:
        apply(shell, node, found)
    finally:
        shell.close()


def _conclude(store: "Store", fleet: "Inventory", node: "Node", *, ours: bool) -> None:
    from launcher.store.user import User

    if ours:
        store.ledger.undrain(fleet.name, [node.name], by=str(User.current()), at=time.time())
    say(f"repaired `{node.name}`: its driver requests nothing more")
    if any(one.node == node.name for one in store.ledger.quarantines(fleet.name)):
        say(f"it is still quarantined; `nvlaunch nodes readmit {node.name}` ends that")
