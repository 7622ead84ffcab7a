"""`schema`: the JSON Schemas of task and inventory files."""

import json
from typing import Annotated

import typer

from launcher.cli.output.console import show
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(schema)


def _kinds(incomplete: str) -> list[str]:
    """Return the kinds of file that begin with a text, for shell completion."""
    from launcher.config.json_schema import SpecKind

    return [kind.value for kind in SpecKind if kind.value.startswith(incomplete)]


def schema(
    kind: Annotated[str, typer.Argument(metavar="task|inventory", help="Kind of file.", autocompletion=_kinds)],
) -> None:
    """Print the JSON Schema of a kind of file.

    \b
    Example:
      nvlaunch schema task > nvlaunch-task.schema.json
    """
    from launcher.config.json_schema import SpecKind, json_schema

    if kind not in [known.value for known in SpecKind]:
        refuse(f"no schema is named `{kind}`", hint="write `nvlaunch schema task` or `nvlaunch schema inventory`")
    show(json.dumps(json_schema(SpecKind(kind)), indent=2))
