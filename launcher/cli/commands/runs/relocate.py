"""`relocate`: move a slice of a run to another rack."""

import time
from typing import Annotated

import typer

from launcher.cli.options import Yes
from launcher.cli.output.console import agree, say
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(relocate)


def relocate(
    part: Annotated[
        str,
        typer.Argument(metavar="RUN/SLICE", help="A slice, such as `job/0`, or `job/GROUP.s0` where there are groups."),
    ],
    yes: Yes = False,
) -> None:
    """Move a slice to another rack.

    Its ranks, and all ranks that restart with them, restart from their
    checkpoint. Without room in another rack it fails, and nothing changes.

    \b
    Example:
      nvlaunch relocate vla-pretrain/3
    """
    from launcher.admission.moves.relocation import check_relocation
    from launcher.cli.node_arguments import active_run
    from launcher.core.model.operator_requests import RequestKind
    from launcher.drive.spawn import ensure_controller
    from launcher.drive.targets import slice_named
    from launcher.store.store import Store
    from launcher.store.user import User

    name, slash, word = part.partition("/")
    if not slash or not word:
        refuse(f"`{part}` names no slice", hint="write RUN/SLICE, such as `vla-pretrain/3`")
    store = Store(home())
    row = active_run(store, name)
    run, _ = store.load(row.id)
    found = slice_named(run, word, before=f"{row.name}/")
    check_relocation(store, run, found)
    key = found.key
    agree(f"move slice `{key}` of `{row.name}` to another rack?", yes=yes)
    store.requests.add(row.id, RequestKind.RELOCATE, subject=key, by=str(User.current()), at=time.time())
    say(f"Relocating slice {key} of {row.name}. Follow: nvlaunch watch {row.name}")
    ensure_controller(home(), row)
