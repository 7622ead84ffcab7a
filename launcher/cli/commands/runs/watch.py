"""`watch`: follow a run to its end, or drive all runs that have no controller."""

import time
from typing import Annotated

import typer

from launcher.cli.options import OneRun
from launcher.cli.output.console import clean, say
from launcher.cli.plain import PlainCommand
from launcher.errors import refuse
from launcher.store.home import home

Port = Annotated[
    int | None, typer.Option("--metrics-port", min=1, max=65535, metavar="N", help="Port for Prometheus metrics.")
]
Address = Annotated[str, typer.Option("--metrics-address", metavar="ADDR", help="Address to serve metrics on.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(watch)


def watch(
    run: OneRun = None,
    every: Annotated[
        bool, typer.Option("--all", help="Drive all runs without a controller, new ones included, until stopped.")
    ] = False,
    defrag: Annotated[
        bool, typer.Option("--defrag", help="With `--all`: move slices where a waiting run is worth it.")
    ] = False,
    metrics_port: Port = None,
    metrics_address: Address = "127.0.0.1",
) -> None:
    """Follow a run to its end, or drive all runs.

    With RUN, start a new controller where the run has none, and exit
    with the code of the outcome. With `--all`, one process drives all
    runs; when it stops, the next `watch` takes them over. `--defrag`
    acts by the `defrag` policy of the inventory.

    \b
    Example:
      nvlaunch watch vla-pretrain
      nvlaunch watch --all --metrics-port 9466
    """
    if (run is None) != every:
        refuse("name one run to follow, or use `--all`", hint="`nvlaunch status` lists the runs")
    if defrag and not every:
        refuse("`--defrag` needs `--all`", hint="`nvlaunch defrag` moves slices once")
    if metrics_port is not None:
        from launcher.drive.metrics import serve

        serve(home(), metrics_address, metrics_port)
        say(f"serving metrics on http://{metrics_address}:{metrics_port}/metrics")
    if run is None:
        _drive_all(defrag=defrag)
    else:
        _follow(run)


def _drive_all(*, defrag: bool) -> None:
    from launcher.drive.control import stoppable
    from launcher.drive.service import RunService

    def tell(line: str) -> None:
        say(f"{time.strftime('%H:%M:%S')} {clean(line)}")

    with stoppable() as stopped:
        tell(f"driving all runs of {home()}")
        RunService(home(), tell, defrag=defrag).drive(stopped)
    tell("stopped; the runs continue without a controller")


def _follow(run: str) -> None:
    from launcher.cli.drivers import detachable
    from launcher.cli.output.conclude import conclude
    from launcher.cli.output.follow import RunProgress
    from launcher.drive.follow import attend, follow
    from launcher.store.store import Store

    store = Store(home())
    row = store.find(run)
    if row.ended is None:
        with detachable(row.name), RunProgress() as progress:
            attend(store, row, progress)
            say(clean(f"{row.state.value}: {row.status_message}"))
            row = follow(store, row.id, progress, after=store.journal.last(row.id))
    conclude(row)
