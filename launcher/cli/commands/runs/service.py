"""`service`: a systemd unit that drives all runs."""

import os
import pwd
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.commands.runs.watch import Port
from launcher.cli.output.console import show
from launcher.cli.plain import PlainCommand
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(service)


def service(
    system: Annotated[
        bool, typer.Option("--system", help="Write a system unit that runs as this user (default: a user unit).")
    ] = False,
    defrag: Annotated[bool, typer.Option("--defrag", help="Also move slices where a waiting run is worth it.")] = False,
    metrics_port: Port = None,
) -> None:
    """Print a systemd unit that drives all runs.

    \b
    Example:
      nvlaunch service > ~/.config/systemd/user/nvlaunch.service
      systemctl --user enable --now nvlaunch
      loginctl enable-linger
    """
    from launcher.config.templates import read_template

    command = shutil.which("nvlaunch") or sys.argv[0]
    words = [str(Path(command).absolute()), "watch", "--all"]
    words += ["--defrag"] if defrag else []
    words += ["--metrics-port", str(metrics_port)] if metrics_port is not None else []
    text = read_template("nvlaunch.service")
    for name, value in {
        "@EXEC@": " ".join(_unit_word(word) for word in words),
        "@HOME@": _unit_word(f"NVLAUNCH_HOME={home()}", dollar="$"),
        "@USER@": f"User={pwd.getpwuid(os.getuid()).pw_name}\n" if system else "",
        "@TARGET@": "multi-user.target" if system else "default.target",
    }.items():
        text = text.replace(name, value)
    show(text.rstrip("\n"))


def _unit_word(word: str, *, dollar: str = "$$") -> str:
    """Return a word escaped for systemd.service(5).

    `%` begins a specifier there, and `$` a variable of a command.
    """
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return escaped if shlex.quote(word) == word and escaped == word else f'"{escaped}"'
