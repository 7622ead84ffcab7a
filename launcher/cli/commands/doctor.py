"""`doctor`: ask the machines how they are."""

import difflib
import json
import os
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, FleetFile, Output, home
from launcher.cli.output.console import say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode, Mistake, SpecError

if TYPE_CHECKING:
    from launcher.core.model.inventory import Inventory, Node

HEAD_WORD = "head"

NodeWords = Annotated[
    list[str] | None,
    typer.Argument(metavar="NODES", help="Nodes, ranges such as `r07-n[01-16]`, racks, or `head`; all without it."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(doctor)


def doctor(nodes: NodeWords = None, inventory: FleetFile = None, output: As = Output.TEXT) -> None:
    """Ask nodes how they are, and say what is wrong.

    Changes nothing on them. Exit 4 where something is bad; what cannot be told is counted apart.

    \b
    Example:
      nvlaunch doctor -i fleet.yaml r07 'r08-n[01-04]'
    """
    from launcher.admission.doctor import check_up
    from launcher.cli.output.doctor import doctor_json, doctor_text
    from launcher.cli.output.plan import fleet_text
    from launcher.cli.output.progress import Asking
    from launcher.config.inventory.read import find_inventory
    from launcher.drive.control import open_prober
    from launcher.store.domains import Domains

    fleet = find_inventory(inventory, os.environ, home())
    say(fleet_text(fleet))
    wanted = choose(fleet, nodes or ())
    prober = open_prober(home(), fleet)
    try:
        with Asking(fleet) as asking:
            found = check_up(fleet, wanted, prober, asking)
    finally:
        prober.close()
    Domains(home()).keep(fleet.name, found.reported, time.time())
    show(json.dumps(doctor_json(fleet.name, found), indent=2) if output is Output.JSON else doctor_text(found))
    if found.bad:
        raise typer.Exit(ExitCode.REMOTE)


def choose(fleet: "Inventory", words: Sequence[str]) -> "list[Node]":
    """Return the nodes that words mean, in the inventory's order; all, with the head's machine, for no words.

    SpecError for every word that means nothing.
    """
    from launcher.admission.node_checks import HEAD, head_of

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


def _names(words: Iterable[str], known: "dict[str, set[str]]") -> set[str]:
    from launcher.core.model.nodeset import expand

    chosen: set[str] = set()
    mistakes: list[Mistake] = []
    for word in words:
        try:
            names = expand(word)
        except ValueError as error:
            mistakes.append(Mistake(what=str(error), hint="a range is written `r07-n[01-18]`"))
            continue
        for name in names:
            if name in known:
                chosen |= known[name]
            else:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean `{near[0]}`?" if near else "`nvlaunch racks` shows them"
                mistakes.append(Mistake(what=f"no node or rack is named `{name}`", hint=hint))
    if mistakes:
        raise SpecError(tuple(mistakes))
    return chosen
