"""`exec`: a command beside ranks of a run, on their nodes."""

import secrets
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import AllRanks, OneRank, OneSlice, OnNode, RunWord
from launcher.cli.output.console import clean, say
from launcher.cli.plain import PlainCommand
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.cli.remote_command import RemoteCommand


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
        int | None, typer.Option("--timeout", metavar="S", min=1, help="Kill the command after this many seconds.")
    ] = None,
) -> None:
    """Run a command beside ranks.

    It runs in the folder of the rank with its variables, but without
    secrets and stdin; by default beside rank 0. No shell interprets it:
    for a pipe, use `sh -c`. Processes that it leaves are killed.

    \b
    Example:
      nvlaunch exec vla-pretrain --all -- nvidia-smi -L
      nvlaunch exec vla-pretrain --rank 3 -- sh -c 'ls *.pt | wc -l'
    """
    from launcher.cli.remote_command import RemoteCommand
    from launcher.drive.adapters import open_nodes
    from launcher.drive.targets import check_not_ended, targets
    from launcher.ports import Command
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    found, record = store.load(row.id)
    chosen = targets(found, record, rank=rank, part=part, node=node, every=every)
    check_not_ended(found, ended=row.ended is not None)
    if found.fleet.capabilities.imaginary:
        say("imaginary racks: no program runs, and the output is made up")
    nodes = open_nodes(home(), found.fleet)
    try:
        program = Command(token=secrets.token_hex(4), argv=tuple(command), timeout=timeout)
        _run(RemoteCommand(nodes, found, chosen, program))
    finally:
        nodes.close()


def _run(command: "RemoteCommand") -> None:
    from launcher.errors import ExitCode

    try:
        command.run()
    except KeyboardInterrupt:
        say()
        for message in command.stop():
            say(clean(message))
        raise typer.Exit(ExitCode.INTERRUPTED) from None
