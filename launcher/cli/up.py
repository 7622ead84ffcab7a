"""`up` and `plan`: place a task, show where, start its run and follow it."""

import json
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.console import agree, refuse, say, show
from launcher.cli.options import As, Env, EnvFile, FleetFile, Name, Output, Secret, TaskFile, Yes, home
from launcher.cli.plain import PlainCommand
from launcher.errors import LaunchError, NoCapacityError

if TYPE_CHECKING:
    from launcher.cli.intake import Request
    from launcher.cli.ready import Ready
    from launcher.core.placement import Placement
    from launcher.core.run import Run, RunId
    from launcher.store.store import Store


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
) -> None:
    """Start a task and follow it.

    The exit code is that of its outcome. Ctrl-C or a closed terminal end the following, never the run.

    \b
    Example:
      nvlaunch up task.yaml -i fleet.yaml --env STEPS=1000 --secret HF_TOKEN
    """
    from launcher.cli.parcel import tell_files
    from launcher.cli.ready import preflight
    from launcher.core.run import RunName
    from launcher.store.store import Store

    if detach and foreground:
        refuse("`--detach` and `--foreground` exclude each other", hint="leave one of them out")
    request = _read(file, name, inventory, env, env_file, secret)
    store = Store(home())
    if dry_run:
        _show_plan(request, _place(request, store), Output.TEXT)
        return
    store.check_name(RunName(request.task.name))
    with preflight(request) as ready:
        _say_plan(request, ready.place(store.taken(request.fleet)))
        tell_files(request.task, request.fleet)
        agree(f"start `{request.task.name}`?", yes=yes)
        run = _launch(store, request, ready)
    if foreground:
        _drive_here(store, run.id)
    else:
        _drive_apart(store, run, detach=detach)


def plan(
    file: TaskFile,
    name: Name = None,
    inventory: FleetFile = None,
    env: Env = None,
    env_file: EnvFile = None,
    secret: Secret = None,
    output: As = Output.TEXT,
) -> None:
    """Show where a task would run now.

    Or why it would not, and what would make it fit. Changes nothing and asks no node.

    \b
    Example:
      nvlaunch plan examples/vla-8x64.yaml -i examples/fleet-9xnvl72.yaml -o json
    """
    from launcher.store.store import Store

    request = _read(file, name, inventory, env, env_file, secret)
    try:
        placement = _place(request, Store(home()))
    except NoCapacityError as error:
        if output is Output.JSON:
            from launcher.cli.render_shortfall import shortfall_json

            show(json.dumps({"shortfall": shortfall_json(error.shortfall)}, indent=2))
        raise
    _show_plan(request, placement, output)


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
    from launcher.cli.ready import as_remembered
    from launcher.core.place import place
    from launcher.core.placement import Shortfall

    answer = place(request.task, as_remembered(request.fleet), store.taken(request.fleet))
    if isinstance(answer, Shortfall):
        raise NoCapacityError(answer)
    return answer


def _launch(store: "Store", request: "Request", ready: "Ready") -> "Run":
    """Answer the run, kept with its claims, secrets and files; where those cannot be kept, nothing is."""
    from launcher.cli.intake import keep_secrets
    from launcher.cli.parcel import keep_files
    from launcher.core.run import RunState
    from launcher.store.store import secrets_file

    run = _claim(store, request, ready)
    try:
        keep_secrets(secrets_file(home(), run.id), request.secrets)
        keep_files(run)
    except LaunchError:
        store.finish(run.id, RunState.FAILED, time.time())
        raise
    return run


def _claim(store: "Store", request: "Request", ready: "Ready") -> "Run":
    from launcher.cli.ready import MovedError
    from launcher.core.run import RunName

    while True:
        try:
            return store.launch(
                name=RunName(request.task.name),
                task=request.task,
                fleet=ready.fleet,
                decide=ready.decide,
                source=request.source,
                at=time.time(),
            )
        except MovedError:
            say("other runs came first; it is placed so:")
            _say_plan(request, ready.place(store.taken(request.fleet)))


def _drive_apart(store: "Store", run: "Run", *, detach: bool) -> None:
    from launcher.cli.conclude import conclude
    from launcher.cli.follow import follow, leaving
    from launcher.drive.control import spawn

    with leaving(run.name):
        spawn(home(), run.id)
        row = None if detach else follow(store, home(), run.id)
    if row is not None:
        conclude(row)
        return
    say(f"`{run.name}` is starting; `nvlaunch watch {run.name}` follows it, `nvlaunch status {run.name}` shows it")
    show(run.id)


def _drive_here(store: "Store", run: "RunId") -> None:
    """The loop has the main thread, for its signals; what it decides is told from the journal beside it."""
    from launcher.cli.conclude import conclude
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
    row = store.find(run)
    if row.ended is None:
        say(f"`{row.name}` goes on, undriven; `nvlaunch watch {row.name}` drives it again")
        raise typer.Exit(ExitCode.INTERRUPTED)
    conclude(row)


def _say_plan(request: "Request", placement: "Placement") -> None:
    from launcher.cli.render_plan import plan_text

    say(plan_text(request.task.name, placement))


def _show_plan(request: "Request", placement: "Placement", output: Output) -> None:
    from launcher.cli.render_plan import plan_json, plan_text

    if output is Output.JSON:
        show(json.dumps(plan_json(request.task.name, request.fleet, placement), indent=2))
    else:
        show(plan_text(request.task.name, placement))
