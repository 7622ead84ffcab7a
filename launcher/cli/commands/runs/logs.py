"""`logs`: what ranks wrote, and how nodes were prepared."""

from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import Follow, NodeLogs, OneLog, RunWord
from launcher.cli.plain import PlainCommand
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.core.model.inventory import Capabilities

# How many lines are shown from the end of a single log, and of each of several.
ONE, MANY = 1000, 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(logs)


def logs(
    run: RunWord,
    follow: Follow = False,
    rank: OneLog = None,
    tail: Annotated[
        int | None,
        typer.Option(
            "--tail",
            metavar="LINES",
            min=0,
            help=f"Lines from the end, 0 for all (default: {ONE}; {MANY} each for several logs).",
        ),
    ] = None,
    provision: Annotated[
        bool, typer.Option("--provision", help="Logs of how nodes were prepared, `setup` included.")
    ] = False,
    node: NodeLogs = None,
    attempt: Annotated[
        int | None, typer.Option("--attempt", metavar="N", min=1, help="Logs of an earlier attempt (default: newest).")
    ] = None,
) -> None:
    """Show the logs of ranks.

    One log is shown byte for byte; of several, each line is labelled
    with its rank. A restarted rank is shown from its last start;
    `--attempt` shows an earlier one.

    \b
    Example:
      nvlaunch logs vla-pretrain --rank 3 -f
      nvlaunch logs vla-pretrain --rank 3 --attempt 1
      nvlaunch logs vla-pretrain --provision --node r07-n04
    """
    from launcher.cli.output.console import say
    from launcher.cli.output.logs import LogPrinter
    from launcher.drive.adapters import open_nodes
    from launcher.drive.log_reader import LogReader, log_sources
    from launcher.store.store import Store

    store = Store(home())
    found, record = store.load(store.find(run).id)
    sources = log_sources(found, record, rank=rank, node=node, provision=provision, attempt=attempt)
    nodes = open_nodes(home(), found.fleet)
    reader, printer = LogReader(nodes, found, sources), LogPrinter(labelled=len(sources) > 1)
    try:
        for chunk in reader.tail(tail if tail is not None else (ONE if len(sources) == 1 else MANY)):
            printer.show(chunk)
        if follow:
            for chunk in reader.follow(lambda: store.find(found.id).ended is not None):
                printer.show(chunk)
        printer.finish()
        reader.check()
        if reader.empty:
            say(_no_output(found.fleet.capabilities, ended=store.find(found.id).ended is not None, provision=provision))
    finally:
        reader.close()
        nodes.close()


def _no_output(nodes: "Capabilities", *, ended: bool, provision: bool) -> str:
    """Return what to say where all logs are empty."""
    if ended and nodes.imaginary:
        return "an imaginary fleet keeps no logs of runs that have ended"
    if ended:
        return "no output"
    return "no output yet" if provision else "no output yet; see --provision"
