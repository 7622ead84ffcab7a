"""`resume`: continue a run that is on hold."""

import time

import typer

from launcher.cli.options import RunWord
from launcher.cli.output.console import clean, say
from launcher.cli.plain import PlainCommand
from launcher.store.home import home


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(resume)


def resume(run: RunWord) -> None:
    """Resume a run that is on hold.

    A run is put on hold when half a rack fails at once, and no node can
    be identified as the cause.

    \b
    Example:
      nvlaunch resume vla-pretrain
    """
    from launcher.cli.node_arguments import active_run
    from launcher.core.model.operator_requests import RequestKind
    from launcher.core.model.run import RunState
    from launcher.drive.spawn import ensure_controller
    from launcher.store.store import Store
    from launcher.store.user import User

    store = Store(home())
    row = active_run(store, run)
    store.requests.add(row.id, RequestKind.RESUME, by=str(User.current()), at=time.time())
    if row.state is RunState.ON_HOLD and store.load(row.id)[1].shared_fault is None:
        say(clean(f"`{row.name}` waits for nodes, not for an operator: {row.status_message}"))
    elif row.state is RunState.ON_HOLD:
        say(f"Resuming {row.name}. Follow: nvlaunch watch {row.name}")
    else:
        say(f"`{row.name}` is not on hold: {row.state.value}; nothing changes")
    ensure_controller(home(), row)
