"""The list of commands.

The module of a command is imported when the command runs, so that each starts fast.
"""

import inspect
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from launcher.cli.plain import PlainGroup
from launcher.errors import ExitCode

SECTIONS: Mapping[str, Mapping[str, str]] = {
    "Runs": {
        "up": "runs.up",
        "plan": "runs.plan",
        "status": "runs.status",
        "logs": "runs.logs",
        "exec": "runs.exec_",
        "ssh": "runs.ssh",
        "sync-down": "runs.sync_down",
        "events": "runs.events",
        "watch": "runs.watch",
        "down": "runs.down",
        "queue": "runs.queue",
        "resume": "runs.resume",
        "relocate": "runs.relocate",
        "report": "runs.report",
        "replay": "runs.replay",
        "service": "runs.service",
    },
    "Nodes": {
        "racks": "nodes.racks",
        "doctor": "nodes.doctor",
        "check": "nodes.check",
        "nodes": "nodes.nodes",
        "drain": "nodes.drain",
        "undrain": "nodes.drain",
        "confirm-dead": "nodes.confirm_dead",
        "repair": "nodes.repair",
        "hosts": "nodes.hosts",
    },
    "Planning": {
        "size": "planning.size",
        "defrag": "planning.defrag",
        "simulate": "planning.simulate",
    },
    "Files": {
        "init": "files.init",
        "validate": "files.validate",
        "schema": "files.schema",
        "inventory": "inventory.group",
    },
}
"""The modules of all commands below `launcher.cli.commands`, in the order of `--help`."""

_MODULES = {name: module for commands in SECTIONS.values() for name, module in commands.items()}


class LazyCommands(Mapping[str, Any]):
    """All commands by name; each is built when it is looked up."""

    def __init__(self) -> None:
        self._built: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._built:
            built = typer.main.get_command(_registered(name))
            self._built[name] = built.commands[name] if isinstance(built, TyperGroup) else built
        return self._built[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


class RootGroup(PlainGroup):
    """The group of all commands."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands: Any = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names of all commands; builds none of them."""
        del ctx
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the name and summary of each command, by section; builds none of them."""
        del ctx
        width = max(map(len, _MODULES))
        for title, commands in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name.ljust(width), _summary(name)) for name in commands])


def _registered(name: str) -> typer.Typer:
    """Return an app that has the commands of one module.

    Ctrl-C during the import ends the process in silence.
    """
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    try:
        import_module(f"launcher.cli.commands.{_MODULES[name]}").register(app)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    return app


def _summary(name: str) -> str:
    """Return the first line of a command's docstring."""
    app = _registered(name)
    functions = {
        found.name or (found.callback.__name__ if found.callback else ""): found.callback
        for found in app.registered_commands
    }
    for group in app.registered_groups:
        if group.typer_instance is not None and group.typer_instance.registered_callback is not None:
            functions[str(group.name)] = group.typer_instance.registered_callback.callback
    return (inspect.getdoc(functions[name]) or "").partition("\n")[0]
