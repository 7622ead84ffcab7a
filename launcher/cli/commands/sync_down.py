"""`sync-down`: files of ranks, back to this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import AllRanks, OneRank, RunWord, home
from launcher.cli.output.console import clean, say, warn
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.cli.download import Haul


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="sync-down", cls=PlainCommand)(sync_down)


def sync_down(
    run: RunWord,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A file or folder there, from the ranks' folder on.")],
    folder: Annotated[Path, typer.Argument(metavar="DEST", help="Where to.")] = Path(),
    rank: OneRank = None,
    every: AllRanks = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that are here already.")] = False,
) -> None:
    """Copy files of ranks to this machine.

    They arrive as DEST/RANK/..., of rank 0 where nothing is said. PATH may
    be absolute, or begin with `~/` there. Also works when the run is over.

    \b
    Example:
      nvlaunch sync-down vla-pretrain checkpoints ./back --all
    """
    from launcher.cli.download import Haul
    from launcher.cli.targets import places
    from launcher.drive.control import open_nodes
    from launcher.store.store import Store

    store = Store(home())
    found, record = store.load(store.find(run).id)
    wanted = places(found, record, rank=rank, part=None, node=None, every=every)
    nodes = open_nodes(home(), found.fleet)
    try:
        haul = Haul(nodes, found, wanted, path, folder, force=force)
        haul.run()
    finally:
        nodes.close()
    _tell(haul)


def _tell(haul: "Haul") -> None:
    from launcher.errors import ProvisionError

    for label, left_out in haul.left_out:
        warn(clean(f"{label}: not sent: {left_out}"))
    say(clean(haul.summary()))
    if outcomes := tuple(haul.failed):
        hints = ("`--force` replaces what is here already",) if haul.in_the_way else ()
        raise ProvisionError("not all files are here", outcomes=outcomes, hints=hints)
