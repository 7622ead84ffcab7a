"""`exec`: a command beside ranks of a run, on their nodes."""

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import AllRanks, OneRank, OneSlice, OnNode, RunWord, home
from launcher.cli.output.console import clean, refuse, say
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.cli.remote_command import Commanding


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="exec", cls=PlainCommand)(execute)


def execute(
    run: RunWord,
    command: Annotated[list[str], typer.Argument(metavar="-- COMMAND", help="A program and its arguments.")],
    rank: OneRank = None,
    part: OneSlice = None,
    node: OnNode = None,
    every: AllRanks = False,
    timeout: Annotated[
        int | None, typer.Option("--timeout", metavar="S", min=1, help="End it after so many seconds.")
    ] = None,
) -> None:
    """Run a command beside ranks.

    It has the rank's variables and folder, but no secrets and no stdin.
    Without a choice it runs beside rank 0. Its arguments reach it as they
    are: for a pipe, run a shell. What it leaves running ends with it.

    \b
    Example:
      nvlaunch exec vla-pretrain --all -- nvidia-smi -L
      nvlaunch exec vla-pretrain --rank 3 -- sh -c 'ls *.pt | wc -l'
    """
    from launcher.cli.remote_command import Commanding
    from launcher.cli.targets import places
    from launcher.drive.control import open_nodes
    from launcher.ports import Command
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    found, record = store.load(row.id)
    wanted = places(found, record, rank=rank, part=part, node=node, every=every)
    if row.ended is not None:
        refuse(f"`{row.name}` is over, and its nodes are not its own any more", hint="`nvlaunch logs` still works")
    nodes = open_nodes(home(), found.fleet)
    asked = Command(token=secrets.token_hex(4), argv=tuple(command), timeout=timeout)
    try:
        _run(Commanding(nodes, found, wanted, asked))
    finally:
        nodes.close()


def _run(commanding: "Commanding") -> None:
    from launcher.errors import ExitCode

    try:
        commanding.run()
    except KeyboardInterrupt:
        say()
        for words in commanding.stop():
            say(clean(words))
        raise typer.Exit(ExitCode.INTERRUPTED) from None
