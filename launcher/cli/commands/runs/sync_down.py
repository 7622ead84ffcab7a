"""`sync-down`: files of ranks to this machine."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import AllRanks, OneRank, RunWord
from launcher.cli.output.console import clean, say, warn
from launcher.cli.plain import PlainCommand
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.cli.download import Download


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(name="sync-down", cls=PlainCommand)(sync_down)


def sync_down(
    run: RunWord,
    path: Annotated[
        str, typer.Argument(metavar="PATH", help="A file or folder, absolute, in `~/`, or in the folder of the rank.")
    ],
    folder: Annotated[Path, typer.Argument(metavar="DEST", help="Target folder on this machine.")] = Path(),
    rank: OneRank = None,
    every: AllRanks = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files that exist here.")] = False,
) -> None:
    """Copy files of ranks to this machine.

    Each rank, by default rank 0, has a folder of its own: DEST/RANK/.
    Works after the run has ended, too.

    \b
    Example:
      nvlaunch sync-down vla-pretrain checkpoints ./back --all
    """
    from launcher.cli.download import Download
    from launcher.drive.adapters import open_nodes
    from launcher.drive.targets import targets
    from launcher.store.store import Store

    store = Store(home())
    found, record = store.load(store.find(run).id)
    chosen = targets(found, record, rank=rank, part=None, node=None, every=every)
    if found.fleet.capabilities.imaginary:
        say("imaginary racks: there are no files, and their content is made up")
    nodes = open_nodes(home(), found.fleet)
    try:
        download = Download(nodes, found, chosen, path, folder, force=force)
        download.run()
    finally:
        nodes.close()
    _conclude(download)


def _conclude(download: "Download") -> None:
    from launcher.errors import ProvisionError

    for label, left_out in download.left_out:
        warn(clean(f"{label}: not sent: {left_out}"))
    say(clean(download.summary()))
    if outcomes := tuple(download.failed):
        hints = ("`--force` replaces files that exist here",) if download.exists_here else ()
        raise ProvisionError("not all files were copied", outcomes=outcomes, hints=hints)
