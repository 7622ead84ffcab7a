"""`up`: place a task, show where, start its run and follow it."""

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import Env, EnvFile, FleetFile, Name, Output, Secret, TaskFile, Yes, home
from launcher.cli.output.console import clean, refuse, say, show
from launcher.cli.plain import PlainCommand
from launcher.errors import NoCapacityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launcher.cli.driving import Ways
    from launcher.cli.intake import Request
    from launcher.core.model.nodeset import NodeName
    from launcher.core.model.run import Run
    from launcher.setup.lease import Holder
    from launcher.store.rows import RunRow
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(up)


def up(
    file: TaskFile,
    name: Name = None,
    inventory: FleetFile = None,
    detach: Annotated[bool, typer.Option("-d", "--detach", help="Return once the run is accepted.")] = False,
    yes: Yes = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and change nothing.")] = False,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    foreground: Annotated[
        bool, typer.Option("--foreground", help="Drive the run in this process (CI, systemd).")
    ] = False,
    queue: Annotated[
        bool, typer.Option("--queue", help="Wait for its turn; return once it is in the queue, or has begun.")
    ] = False,
) -> None:
    """Start a task and follow it.

    The exit code is that of its outcome. Ctrl-C or a closed terminal end the following, never the run.
    With --queue it waits for its turn where it does not fit now: see `nvlaunch queue`.

    \b
    Example:
      nvlaunch up task.yaml -i fleet.yaml --env STEPS=1000 --secret HF_TOKEN
    """
    from launcher.cli.commands.plan import place_now, read, show_plan
    from launcher.cli.driving import Ways
    from launcher.cli.queueing import wait
    from launcher.core.model.run import RunName
    from launcher.store.store import Store

    if detach and foreground:
        refuse("`--detach` and `--foreground` exclude each other", hint="leave one of them out")
    with _nothing_yet():
        request = read(file, name, inventory, env, env_file, secret)
        store = Store(home())
        if dry_run:
            show_plan(request, store, place_now(request, store), Output.TEXT)
            return
        ways = Ways(yes=yes, detach=detach, foreground=foreground)
        running = _resized(store, request, ways)
        if running is None:
            store.check_name(RunName(request.task.name))
        row = running or (wait(store, request, ways) if queue else _run_now(store, request, ways))
    _conclude(row)


@contextmanager
def _nothing_yet() -> "Iterator[None]":
    """Ctrl-C that comes through here found no run: one that was accepted is left by those who follow it."""
    from launcher.errors import ExitCode

    try:
        yield
    except KeyboardInterrupt:
        say("\nnothing was started")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _run_now(store: "Store", request: "Request", ways: "Ways") -> "RunRow":
    """Return a run that does not wait; where it does not fit, it is said how to."""
    try:
        return _run(store, request, ways)
    except NoCapacityError as error:
        from launcher.cli.queueing import could_ever

        if could_ever(store, request) is None:
            error.hints += ("`nvlaunch up --queue` waits until it is its turn",)
        raise


def _resized(store: "Store", request: "Request", ways: "Ways") -> "RunRow | None":
    """Return a run that goes on with other slices than before; None where the task is no such change."""
    from launcher.cli.follow import follow, leaving, start_driving
    from launcher.cli.resizing import change, live

    row = live(store, request)
    if row is None:
        return None
    news = store.last_event(row.id)
    change(store, request, row, yes=ways.yes)
    start_driving(home(), store.find(row.id))
    if ways.detach:
        say(f"`{row.name}` goes on with other slices; `nvlaunch watch {row.name}` follows it")
        show(row.id)
        raise typer.Exit
    with leaving(row.name):
        return follow(store, home(), row.id, after=news)


def _run(store: "Store", request: "Request", ways: "Ways") -> "RunRow":
    """Return the run as it stands when it is left alone; one that lost nodes to somebody else is placed anew."""
    from launcher.cli.driving import drive
    from launcher.cli.launching import ROUNDS, give_way, lost

    run = _accept(store, request, {}, yes=ways.yes)
    row = drive(store, run, ways)
    held: dict[NodeName, Holder] = {}
    for _ in range(ROUNDS):
        others = lost(store, row)
        if not others:
            break
        held |= others
        give_way(run, others)
        run = _accept(store, request, held, yes=True)
        row = drive(store, run, ways)
    return row


def _accept(store: "Store", request: "Request", held: "Mapping[NodeName, Holder]", *, yes: bool) -> "Run":
    """Return the run, placed on nodes that were asked, once its owner agrees; until then Ctrl-C leaves nothing."""
    from launcher.cli.commands.plan import say_plan
    from launcher.cli.driving import spawn
    from launcher.cli.follow import leaving
    from launcher.cli.launching import free, keep
    from launcher.cli.output.console import agree
    from launcher.cli.parcel import tell_files
    from launcher.cli.ready import preflight

    run: Run | None = None
    try:
        with preflight(request, held) as ready:
            say_plan(request, ready.place(free(store, request)))
            if not held:
                tell_files(request.task, request.fleet)
            agree(f"start `{request.task.name}`?", yes=yes)
            run = keep(store, request, ready)
    except KeyboardInterrupt:
        if run is None:
            raise
        with leaving(run.name):
            spawn(store, run)
            raise
    return run


def _conclude(row: "RunRow") -> None:
    from launcher.cli.output.conclude import conclude
    from launcher.core.model.run import RunState

    if row.ended is not None or row.outcome is not None:
        conclude(row)
        return
    if row.state is RunState.QUEUED:
        more = f"`nvlaunch queue` shows all, `nvlaunch watch {row.name}` follows it"
        say(f"`{row.name}` waits, {clean(row.status_message)}; {more}")
        show(row.id)
        return
    say(f"`{row.name}` is starting; `nvlaunch watch {row.name}` follows it, `nvlaunch status {row.name}` shows it")
    show(row.id)
