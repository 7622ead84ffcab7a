"""`ssh`: a shell on the node of a rank."""

import os
from typing import Annotated

import typer

from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(ssh)


def ssh(
    where: Annotated[
        str, typer.Argument(metavar="RUN[/RANK]", help="A run, and a rank (default: 0): its number, or `GROUP/N`.")
    ],
) -> None:
    """Open a shell beside a rank.

    It starts in the folder of the rank with its variables, but without
    secrets.

    \b
    Example:
      nvlaunch ssh vla-pretrain/3
    """
    from launcher.drive.adapters import open_nodes
    from launcher.drive.targets import check_not_ended, targets
    from launcher.store.store import Store

    word, _, rank = where.partition("/")
    store = Store(home())
    row = store.find(word)
    found, record = store.load(row.id)
    (target,) = targets(found, record, rank=rank or None, part=None, node=None, every=False)
    check_not_ended(found, ended=row.ended is not None)
    nodes = open_nodes(home(), found.fleet)
    try:
        program = nodes.visit(found, target.node, target.member.name if target.member else None)
    finally:
        nodes.close()
    try:
        os.execvp(program[0], program)  # noqa: S606 an argument vector; the terminal belongs to it from here on
    except OSError as error:
        refuse(
            f"cannot start `{program[0]}`: {(error.strerror or str(error)).lower()}", hint="install OpenSSH's client"
        )
