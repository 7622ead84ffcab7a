"""`ssh`: a shell at the terminal, beside a rank."""

import os
from typing import Annotated

import typer

from launcher.cli.options import home
from launcher.cli.output.console import refuse
from launcher.cli.plain import PlainCommand


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(ssh)


def ssh(
    where: Annotated[
        str,
        typer.Argument(metavar="RUN[/RANK]", help="A run, and a rank of it (0), or `GROUP/N` where there are groups."),
    ],
) -> None:
    """Open a shell beside a rank.

    It has the rank's variables and folder, but no secrets.

    \b
    Example:
      nvlaunch ssh vla-pretrain/3
    """
    from launcher.cli.targets import places
    from launcher.drive.control import open_nodes
    from launcher.store.store import Store

    word, _, rank = where.partition("/")
    store = Store(home())
    row = store.find(word)
    found, record = store.load(row.id)
    (place,) = places(found, record, rank=rank or None, part=None, node=None, every=False)
    if row.ended is not None:
        refuse(f"`{row.name}` is over, and its nodes are not its own any more", hint="`nvlaunch logs` still works")
    nodes = open_nodes(home(), found.fleet)
    try:
        program = nodes.visit(found, place.node, place.member.name if place.member else None)
    finally:
        nodes.close()
    try:
        os.execvp(program[0], program)  # noqa: S606 an argument vector; the terminal is its own from here on
    except OSError as error:
        refuse(
            f"cannot start `{program[0]}`: {(error.strerror or str(error)).lower()}", hint="install OpenSSH's client"
        )
