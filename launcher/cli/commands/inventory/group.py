"""`inventory`: the group of commands about inventories."""

import typer

from launcher.cli.commands.inventory.check import check
from launcher.cli.commands.inventory.discover import discover
from launcher.cli.commands.inventory.export import export
from launcher.cli.commands.inventory.import_ import import_
from launcher.cli.output.console import show
from launcher.cli.plain import PlainCommand, PlainGroup


def register(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(rich_markup_mode=None)
    group.callback(cls=PlainGroup, invoke_without_command=True)(_inventory)
    group.command(name="import", cls=PlainCommand)(import_)
    for command in (discover, check, export):
        group.command(cls=PlainCommand)(command)
    app.add_typer(group, name="inventory")


def _inventory(context: typer.Context) -> None:
    """Import, complete, check or export an inventory.

    \b
    Example:
      nvlaunch inventory import topology.conf -o inventory.yaml
      nvlaunch inventory discover -i inventory.yaml
    """
    if context.invoked_subcommand is None:
        show(context.get_help())
