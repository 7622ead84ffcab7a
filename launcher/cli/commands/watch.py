"""`watch` and `service`: follow a run again, or drive every run that nobody drives, for ever."""

import os
import shlex
import shutil
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from launcher.cli.options import OneRun, home
from launcher.cli.output.console import clean, refuse, say, show
from launcher.cli.plain import PlainCommand

Port = Annotated[
    int | None, typer.Option("--metrics-port", min=1, max=65535, metavar="N", help="Answer Prometheus there.")
]
Address = Annotated[str, typer.Option("--metrics-address", metavar="ADDR", help="On which address.")]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=PlainCommand)(watch)
    app.command(cls=PlainCommand)(service)


def watch(
    run: OneRun = None,
    every: Annotated[
        bool, typer.Option("--all", help="Drive every run that nobody drives, also new ones, until told to stop.")
    ] = False,
    metrics_port: Port = None,
    metrics_address: Address = "127.0.0.1",
) -> None:
    """Follow a run to its end, or drive all runs.

    With RUN: starts another controller where its own is gone, and ends
    with the exit code of the outcome. With `--all`: one process with a
    loop for each run; what it leaves behind, the next one takes over.

    \b
    Example:
      nvlaunch watch vla-pretrain
      nvlaunch watch --all --metrics-port 9466
    """
    if (run is None) != every:
        refuse("name the run to follow, or say `--all`", hint="`nvlaunch status` lists the runs")
    if metrics_port is not None:
        from launcher.drive.metrics import serve

        serve(home(), metrics_address, metrics_port)
        say(f"metrics at http://{metrics_address}:{metrics_port}/metrics")
    if run is None:
        _drive_all()
    else:
        _follow(run)


def service(
    system: Annotated[
        bool, typer.Option("--system", help="For the whole machine, run as this user; else for this user alone.")
    ] = False,
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
    words += ["--metrics-port", str(metrics_port)] if metrics_port is not None else []
    user = f"User={_user()}\n" if system else ""
    text = read_template("nvlaunch.service")
    for name, value in {
        "@EXEC@": " ".join(_unit_word(word) for word in words),
        "@HOME@": _unit_word(f"NVLAUNCH_HOME={home()}", dollar="$"),
        "@USER@": user,
        "@TARGET@": "multi-user.target" if system else "default.target",
    }.items():
        text = text.replace(name, value)
    show(text.rstrip("\n"))


def _drive_all() -> None:
    """It ends when it is told to, and that is no failure."""
    from launcher.drive.control import stoppable
    from launcher.drive.service import Herd

    def tell(line: str) -> None:
        say(f"{time.strftime('%H:%M:%S')} {clean(line)}")

    with stoppable() as stopped:
        tell(f"watching all runs of {home()}")
        Herd(home(), tell).drive(stopped)
    tell("stopped; the runs go on, undriven")


def _follow(run: str) -> None:
    from launcher.cli.follow import drive_again, follow, leaving, start_driving
    from launcher.cli.output.conclude import conclude
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    if row.ended is None:
        with leaving(row.name):
            if row.owner is None:  # not yet, or told to stop
                start_driving(home(), row)
            else:
                drive_again(home(), row)
            say(f"{row.state.value.replace('_', ' ')}: {clean(row.status_message)}")
            row = follow(store, home(), row.id, after=store.last_event(row.id))
    conclude(row)


def _user() -> str:
    import pwd

    return pwd.getpwuid(os.getuid()).pw_name


def _unit_word(word: str, *, dollar: str = "$$") -> str:
    """Return a word as systemd.service(5) reads it: `%` begins a specifier there, and `$` a variable of a command."""
    escaped = word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%").replace("$", dollar)
    return escaped if shlex.quote(word) == word and escaped == word else f'"{escaped}"'
