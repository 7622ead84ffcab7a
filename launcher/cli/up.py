"""`up` and `plan`: place a task, show where, start its run and follow it."""

import json
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.console import agree, clean, refuse, say, show
from launcher.cli.options import As, Env, EnvFile, FleetFile, Name, Output, Secret, TaskFile, Yes, home
from launcher.cli.plain import PlainCommand
from launcher.errors import NoCapacityError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from launcher.cli.intake import Request
    from launcher.core.fleet import NodeName
    from launcher.core.placement import Placement, Shortfall
    from launcher.core.run import Run, RunId
    from launcher.setup.lease import Holder
    from launcher.store.rows import RunRow
    from launcher.store.store import Store


SETTLE_S = 10.0
"""Seconds that `up -d` waits for the run to get its nodes, so that it can take others where it does not."""


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command(cls=PlainCommand)(up)
    app.command(cls=PlainCommand)(plan)


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
    from launcher.core.run import RunName
    from launcher.store.store import Store

    if detach and foreground:
        refuse("`--detach` and `--foreground` exclude each other", hint="leave one of them out")
    with _nothing_yet():
        request = _read(file, name, inventory, env, env_file, secret)
        store = Store(home())
        if dry_run:
            _show_plan(request, store, _place(request, store), Output.TEXT)
            return
        ways = _Ways(yes=yes, detach=detach, foreground=foreground)
        running = _resized(store, request, ways)
        if running is None:
            store.check_name(RunName(request.task.name))
        row = running or (_wait(store, request, ways) if queue else _run_now(store, request, ways))
    _conclude(row)


def plan(
    file: TaskFile,
    name: Name = None,
    inventory: FleetFile = None,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    verbose: Annotated[
        bool, typer.Option("-v", "--verbose", help="Say of each rack what was free, and why it was chosen or not.")
    ] = False,
    output: As = Output.TEXT,
) -> None:
    """Show where a task would run now.

    Or why it would not, and what would make it fit, nearest first. Changes nothing and asks no node.

    \b
    Example:
      nvlaunch plan examples/vla-8x64.yaml -i examples/fleet-9xnvl72.yaml -o json
    """
    from launcher.store.store import Store

    request = _read(file, name, inventory, env, env_file, secret)
    store = Store(home())
    try:
        placement = _place(request, store)
    except NoCapacityError as error:
        if output is Output.JSON:
            from launcher.cli.render_shortfall import shortfall_json

            show(json.dumps({"shortfall": shortfall_json(error.shortfall)}, indent=2))
        raise
    _show_plan(request, store, placement, output, verbose=verbose)


def _read(
    file: Path,
    name: str | None,
    inventory: str | None,
    env: list[str] | None,
    env_file: list[Path] | None,
    secret: list[str] | None,
) -> "Request":
    from launcher.cli.intake import Words, read_request

    words = Words(name=name, envs=env or (), env_files=env_file or (), secrets=secret or ())
    return read_request(file, inventory, words)


def _place(request: "Request", store: "Store") -> "Placement":
    from launcher.cli.launching import free
    from launcher.cli.ready import as_remembered
    from launcher.core.place import place
    from launcher.core.placement import Shortfall

    answer = place(request.task, as_remembered(request.fleet), free(store, request))
    if isinstance(answer, Shortfall):
        raise NoCapacityError(answer)
    return answer


@contextmanager
def _nothing_yet() -> "Iterator[None]":
    """Ctrl-C that comes through here found no run: one that was accepted is left by those who follow it."""
    from launcher.errors import ExitCode

    try:
        yield
    except KeyboardInterrupt:
        say("\nnothing was started")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Ways:
    """How a launch goes: without a question, and who drives it."""

    yes: bool
    detach: bool
    foreground: bool


def _run_now(store: "Store", request: "Request", ways: _Ways) -> "RunRow":
    """Answer a run that does not wait; where it does not fit, it is said how to."""
    try:
        return _run(store, request, ways)
    except NoCapacityError as error:
        if _could_ever(store, request) is None:
            error.hints += ("`nvlaunch up --queue` waits until it is its turn",)
        raise


def _resized(store: "Store", request: "Request", ways: _Ways) -> "RunRow | None":
    """Answer a run that goes on with other slices than before; None where the task is no such change."""
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


def _could_ever(store: "Store", request: "Request") -> "Shortfall | None":
    """Answer why a task would not fit if nobody had a node and all were well; None where it would."""
    from launcher.core.place import place
    from launcher.core.placement import Shortfall
    from launcher.drive.preflight import guessed

    answer = place(request.task, guessed(request.fleet, store.domains(request.fleet.name)), {})
    return answer if isinstance(answer, Shortfall) else None


def _wait(store: "Store", request: "Request", ways: _Ways) -> "RunRow":
    """Answer a run that is in the queue, or has begun at once; NoCapacityError where its turn could never come."""
    from launcher.cli.follow import leaving
    from launcher.cli.launching import enqueue, free, seen_in_line
    from launcher.cli.parcel import tell_files
    from launcher.core.place import place
    from launcher.core.placement import Placement
    from launcher.drive.line import lack
    from launcher.drive.preflight import guessed

    if (never := _could_ever(store, request)) is not None:
        raise NoCapacityError(never)
    fleet = guessed(request.fleet, store.domains(request.fleet.name))
    now = place(request.task, fleet, free(store, request))
    if isinstance(now, Placement):
        _say_plan(request, now)
    else:
        say(f"it does not fit now: {lack(now)}")
    tell_files(request.task, request.fleet)
    agree(f"put `{request.task.name}` into the queue?", yes=ways.yes)
    run = enqueue(store, request)
    if ways.foreground:
        return _drive_here(store, run.id)
    with leaving(run.name):
        _spawn(store, run)
        return seen_in_line(store, run, SETTLE_S)


def _run(store: "Store", request: "Request", ways: _Ways) -> "RunRow":
    """Answer the run as it stands when it is left alone; one that lost nodes to somebody else is placed anew."""
    from launcher.cli.launching import ROUNDS, give_way, lost

    run = _accept(store, request, {}, yes=ways.yes)
    row = _drive(store, run, ways)
    held: dict[NodeName, Holder] = {}
    for _ in range(ROUNDS):
        others = lost(store, row)
        if not others:
            break
        held |= others
        give_way(run, others)
        run = _accept(store, request, held, yes=True)
        row = _drive(store, run, ways)
    return row


def _accept(store: "Store", request: "Request", held: "Mapping[NodeName, Holder]", *, yes: bool) -> "Run":
    """Answer the run, placed on nodes that were asked, once its owner agrees; until then Ctrl-C leaves nothing."""
    from launcher.cli.follow import leaving
    from launcher.cli.launching import free, keep
    from launcher.cli.parcel import tell_files
    from launcher.cli.ready import preflight

    run: Run | None = None
    try:
        with preflight(request, held) as ready:
            _say_plan(request, ready.place(free(store, request)))
            if not held:
                tell_files(request.task, request.fleet)
            agree(f"start `{request.task.name}`?", yes=yes)
            run = keep(store, request, ready)
    except KeyboardInterrupt:
        if run is None:
            raise
        with leaving(run.name):
            _spawn(store, run)
            raise
    return run


def _spawn(store: "Store", run: "Run") -> None:
    """Start a controller; Ctrl-C meanwhile leaves no run without one."""
    from launcher.cli.follow import start_driving

    try:
        start_driving(home(), store.find(run.id))
    except KeyboardInterrupt:
        start_driving(home(), store.find(run.id))
        raise


def _conclude(row: "RunRow") -> None:
    from launcher.cli.conclude import conclude
    from launcher.core.run import RunState

    if row.ended is not None or row.outcome is not None:
        conclude(row)
        return
    if row.state is RunState.QUEUED:
        more = f"`nvlaunch queue` shows all, `nvlaunch watch {row.name}` follows it"
        say(f"`{row.name}` waits, {clean(row.headline)}; {more}")
        show(row.id)
        return
    say(f"`{row.name}` is starting; `nvlaunch watch {row.name}` follows it, `nvlaunch status {row.name}` shows it")
    show(row.id)


def _drive(store: "Store", run: "Run", ways: _Ways) -> "RunRow":
    """Answer a run when it is over; a detached one when its nodes are its own."""
    from launcher.cli.follow import follow, leaving
    from launcher.cli.launching import settle

    if ways.foreground:
        return _drive_here(store, run.id)
    with leaving(run.name):
        _spawn(store, run)
        return settle(store, run, SETTLE_S) if ways.detach else follow(store, home(), run.id)


def _drive_here(store: "Store", run: "RunId") -> "RunRow":
    """The loop has the main thread, for its signals; what it decides is told from the journal beside it."""
    from launcher.cli.follow import GLANCE, Follower, Progress
    from launcher.drive.control import control
    from launcher.errors import ExitCode

    over = threading.Event()

    def narrate() -> None:
        with Progress() as progress:
            follower = Follower(store, run, progress)
            while not over.wait(GLANCE):
                follower.look()
            follower.look()

    narrator = threading.Thread(target=narrate, daemon=True)
    narrator.start()
    try:
        control(home(), run)
    finally:
        over.set()
        narrator.join()
    row = store.find(store.queue.last(run))
    if row.ended is None:
        say(f"`{row.name}` goes on, undriven; `nvlaunch watch {row.name}` drives it again")
        raise typer.Exit(ExitCode.INTERRUPTED)
    return row


def _say_plan(request: "Request", placement: "Placement") -> None:
    from launcher.cli.render_plan import plan_text

    say(plan_text(request.task.name, placement))


def _show_plan(
    request: "Request", store: "Store", placement: "Placement", output: Output, *, verbose: bool = False
) -> None:
    from launcher.cli.ready import as_remembered
    from launcher.cli.render_plan import plan_json, plan_text, survey_json, survey_text, wear, wear_text
    from launcher.core.survey import survey

    fleet, taken = as_remembered(request.fleet), store.taken(request.fleet)
    score = wear(fleet, taken, placement)
    surveyed = survey(request.task, fleet, taken, placement) if verbose else ()
    if output is Output.JSON:
        told = plan_json(request.task.name, request.fleet, placement, score)
        show(json.dumps({**told, **({"racks": survey_json(surveyed)} if verbose else {})}, indent=2))
        return
    show(plan_text(request.task.name, placement))
    show(wear_text(score))
    if verbose:
        show(survey_text(surveyed))
