"""`nvlaunch`: runs one command, and turns errors into exit codes."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from launcher import __version__
from launcher.cli.output.console import open_closed_streams, say, show
from launcher.cli.registry import RootGroup
from launcher.errors import ExitCode, LaunchError

# UsageError, which typer does not export: since 0.24 it carries a click of its own.
_USAGE: type[Exception] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    name="nvlaunch",
    # Plain help: it starts at once, reads the same on every terminal and pipe, and wraps where the window is narrow.
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(asked: bool) -> None:
    if asked:
        show(f"nvlaunch {__version__}")
        raise typer.Exit


@app.callback(cls=RootGroup, invoke_without_command=True)
def _root(
    context: typer.Context,
    _asked: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Launch jobs as rack-local slices on NVL72 racks, and keep them running.

    \b
    Getting started:
      nvlaunch init             write starter files
      nvlaunch plan task.yaml   show where the task would run
      nvlaunch up task.yaml     run it
    """
    if context.invoked_subcommand is None:
        show(context.get_help())


def main(words: Sequence[str] | None = None) -> int:
    """Run one command; return its exit code."""
    open_closed_streams()
    try:
        return int(app(args=words, prog_name="nvlaunch", standalone_mode=False) or ExitCode.SUCCESS)
    except LaunchError as error:
        from launcher.cli.output.errors import error_text

        say(error_text(error))
        return error.code
    except _USAGE as error:
        from launcher.cli.output.errors import usage_text

        say(usage_text(error))
        return ExitCode.USAGE
    except (KeyboardInterrupt, typer.Abort):
        say()
        return ExitCode.INTERRUPTED
    except Exception:  # noqa: BLE001  whatever else escapes is a bug, and is reported as one
        import traceback

        say(traceback.format_exc())
        say(f"error: this is a bug in nvlaunch {__version__} (Python {sys.version.split()[0]}, {os.uname().sysname})")
        say("hint: please report it with the lines above")
        return ExitCode.BUG
