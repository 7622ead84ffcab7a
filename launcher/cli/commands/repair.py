"""`repair`: what the driver of a node asks for, where that can be done from here."""

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from launcher.cli.options import FleetFile, Yes, home
from launcher.cli.output.console import agree, clean, refuse, say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode, LeaseHeldError, RemoteError

if TYPE_CHECKING:
    from launcher.admission.repair import Remedy
    from launcher.core.model.inventory import Inventory, Node
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(repair)


def repair(
    node: Annotated[str, typer.Argument(metavar="NODE", help="A node that no run has.")],
    inventory: FleetFile = None,
    yes: Yes = False,
) -> None:
    """Do what the driver of an idle node asks for.

    A reset of its GPUs or a reboot, where `sudo -n` is allowed there;
    else the commands are printed for somebody who is root. It is
    drained meanwhile.

    \b
    Example:
      nvlaunch repair r07-n03
    """
    from launcher.admission.repair import Cure, look, may_be_root, remedy
    from launcher.drive.control import open_prober
    from launcher.store.store import Store

    store = Store(home())
    fleet, meant = _node(store, node, inventory)
    prober = open_prober(home(), fleet)
    try:
        one = look(fleet, meant, prober, _Silent())
        found = remedy(one)
        if found is None:
            say(f"the driver of `{meant.name}` asks for nothing; `nvlaunch doctor {meant.name}` says how it is")
            return
        say(clean(f"{meant.name}: {found.message}"))
        if found.cure is None or not may_be_root(one):
            _leave_to_root(meant, found)
        agree(f"{found.cure.value} `{meant.name}`?", yes=yes)
        with _kept_free(store, fleet, meant, found) as ours:
            _apply(fleet, meant, found)
        if found.cure is Cure.REBOOT:
            say(f"`{meant.name}` reboots; once `nvlaunch doctor {meant.name}` is good: `nvlaunch undrain {meant.name}`")
            return
        if (left := remedy(look(fleet, meant, prober, _Silent()))) is not None:
            raise RemoteError(f"the driver still asks for something: {left.message}", node=meant.name, stage="repair")
        _tell_well(store, fleet, meant, ours=ours)
    finally:
        prober.close()


class _Silent:
    """One node is asked: there is nothing to tell meanwhile."""

    def asking(self, nodes: object) -> None:
        """Tell nobody."""

    def heard(self, node: object, *, answered: bool) -> None:
        """Tell nobody."""


def _node(store: "Store", word: str, inventory: str | None) -> "tuple[Inventory, Node]":
    from launcher.cli.node_arguments import named
    from launcher.core.model.inventory import Transport

    meant = named(store, [word], inventory)
    if len(meant.nodes) != 1:
        refuse(f"`{word}` names {len(meant.nodes)} nodes", hint="repair one at a time")
    if meant.fleet.transport is not Transport.SSH:
        refuse(f"`{word}` is no machine of its own", hint="only nodes of an inventory with `transport: ssh` are")
    run = store.holders(meant.fleet.name).get(meant.nodes[0])
    if run is not None:
        hint = f"`nvlaunch drain {word}` has the run leave it, where there is a spare"
        raise LeaseHeldError(f"run `{run}` has `{word}`", holder=run, hints=(hint,))
    return meant.fleet, next(node for node in meant.fleet.nodes if node.name == meant.nodes[0])


def _leave_to_root(node: "Node", found: "Remedy") -> NoReturn:
    """Print what somebody who is root can run there."""
    for command in found.commands:
        show(shlex.join(("ssh", "-t", node.access.address, "sudo", *command)))
    if not found.commands:
        refuse(f"`{node.name}` needs what cannot be done from here", hint="see the driver's manual for these words")
    say("`sudo -n` is not allowed there: run this as somebody who may")
    raise typer.Exit(ExitCode.REMOTE)


@contextmanager
def _kept_free(store: "Store", fleet: "Inventory", node: "Node", found: "Remedy") -> Iterator[bool]:
    """Nothing may be placed there from before the act until it is known to be well; return whether the drain is ours,
    and not one that an operator wants to stay."""
    from launcher.cli.node_arguments import author
    from launcher.store.ledger import Drain

    ours = node.name not in store.ledger.drained(fleet.name)
    if ours:
        drain = Drain(node=node.name, reason=f"repair: {found.message}", at=time.time(), by=author())
        store.ledger.drain(fleet.name, [node.name], drain)
    run = store.holders(fleet.name).get(node.name)
    if run is not None:
        raise LeaseHeldError(f"run `{run}` has taken `{node.name}` meanwhile", holder=run)
    yield ours


def _apply(fleet: "Inventory", node: "Node", found: "Remedy") -> None:
    from launcher.admission.repair import apply
    from launcher.transport.open import open_shell

    shell = open_shell(home(), fleet)
    try:
        apply(shell, node, found)
    finally:
        shell.close()


def _tell_well(store: "Store", fleet: "Inventory", node: "Node", *, ours: bool) -> None:
    from launcher.cli.node_arguments import author

    if ours:
        store.ledger.undrain(fleet.name, [node.name], by=author(), at=time.time())
    say(f"`{node.name}` is reset, and its driver asks for nothing more")
    if any(one.node == node.name for one in store.ledger.quarantines(fleet.name)):
        say(f"it is quarantined still: `nvlaunch nodes readmit {node.name}` takes it back")
