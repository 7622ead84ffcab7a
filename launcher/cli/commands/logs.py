"""`logs`: what ranks and the provisioning of nodes wrote, byte for byte."""

from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import Follow, RunWord, home
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.core.model.inventory import Transport

# Lines shown from the end of the only log asked for, and of each of several.
ONE, MANY = 1000, 20


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(logs)


def logs(
    run: RunWord,
    follow: Follow = False,
    rank: Annotated[
        str | None, typer.Option("--rank", metavar="N", help="Of this rank; `GROUP/N` where there are groups.")
    ] = None,
    tail: Annotated[
        int | None,
        typer.Option(
            "--tail", metavar="LINES", min=0, help=f"Lines from the end; 0: all. ({ONE}; of several logs {MANY} each)"
        ),
    ] = None,
    provision: Annotated[bool, typer.Option("--provision", help="How nodes were made ready, and `setup`.")] = False,
    node: Annotated[str | None, typer.Option("--node", metavar="NODE", help="Of this node.")] = None,
) -> None:
    """Show what ranks wrote.

    One rank is shown byte for byte; of several, each line with its rank. A
    rank that was restarted is shown from its last start on.

    \b
    Example:
      nvlaunch logs vla-pretrain --rank 3 -f
      nvlaunch logs vla-pretrain --provision --node r07-n04
    """
    from launcher.cli.log_reader import Reader, sources
    from launcher.drive.control import open_nodes
    from launcher.store.store import Store

    store = Store(home())
    found, record = store.load(store.find(run).id)
    wanted = sources(found, record, rank=rank, node=node, provision=provision)
    nodes = open_nodes(home(), found.fleet)
    reader = Reader(nodes, found, wanted)
    try:
        reader.start(tail if tail is not None else (ONE if len(wanted) == 1 else MANY))
        if follow:
            reader.follow(lambda: store.find(found.id).ended is not None)
        reader.finish(_nothing(found.fleet.transport, over=store.find(found.id).ended is not None))
    finally:
        reader.close()
        nodes.close()


def _nothing(transport: "Transport", *, over: bool) -> str:
    """Return what to say where no log has a byte."""
    from launcher.core.model.inventory import Transport

    if not over:
        return "nothing was written yet"
    return "imaginary racks keep no logs of a run that is over" if transport is Transport.SIM else "nothing was written"
