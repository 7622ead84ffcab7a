"""`defrag`: move slices so that a waiting run, a task or some slices fit."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from launcher.cli.options import As, FleetFile, Output, Yes
from launcher.cli.plain import PlainCommand
from launcher.errors import ExitCode, refuse
from launcher.store.home import home

if TYPE_CHECKING:
    from launcher.admission.moves.execution import StepProgress
    from launcher.admission.moves.planning import RoomRequest
    from launcher.core.planner.defragment import MovePlan
    from launcher.store.store import Store

_SIZES = typer.Option("--size", min=1, metavar="NODES", help="Nodes of each of these slices.")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(defrag)


def defrag(
    wanted: Annotated[
        str | None,
        typer.Option("--for", metavar="TASK", help="A queued run, or a task file (default: the first queued run)."),
    ] = None,
    slices: Annotated[
        int | None, typer.Option("--slices", min=1, metavar="N", help="Make room for so many slices instead.")
    ] = None,
    size: Annotated[int | None, _SIZES] = None,
    inventory: FleetFile = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0.0, metavar="GPU-HOURS", help="Refuse moves that cost more.")
    ] = None,
    max_moves: Annotated[
        int | None, typer.Option("--max-moves", min=0, metavar="N", help="Refuse a plan of more moves.")
    ] = None,
    yes: Yes = False,
    output: As = Output.TEXT,
) -> None:
    """Move slices to other racks to make room.

    Shows the moves and what they cost, and makes them once you agree.
    Only slices of runs that are `movable` or `preemptible` move: their
    ranks get `stop_signal` and restart from their checkpoint. With
    `-o json`, moves nothing unless `--yes` is given.

    \b
    Example:
      nvlaunch defrag
      nvlaunch defrag --for big.yaml -i fleet.yaml --max-cost 20
      nvlaunch defrag --slices 2 --size 16 -i fleet.yaml -o json
    """
    import time

    from launcher.admission.moves.planning import plan_moves
    from launcher.cli.output.console import show
    from launcher.cli.output.defrag import plan_json, plan_text, refusal_text
    from launcher.core.planner.defragment import MovePlan
    from launcher.store.store import Store

    if (slices is None) != (size is None):
        refuse("`--slices` and `--size` belong together", hint="such as `--slices 2 --size 16`")
    if wanted is not None and slices is not None:
        refuse("`--for` and `--slices` exclude each other", hint="use one of the two")
    store = Store(home())
    room = _room(store, wanted, (slices, size) if slices and size else None, inventory)
    store.move_plans.check_idle(room.fleet.name, time.time())
    found = plan_moves(store, room)
    if output is Output.JSON:
        show(plan_json(room, found))
    elif isinstance(found, MovePlan):
        show(plan_text(room, found))
    else:
        show(refusal_text(room, found))
    if not isinstance(found, MovePlan):
        raise typer.Exit(ExitCode.NO_CAPACITY)
    _check_limits(found, max_cost, max_moves)
    if found.steps and (yes or output is Output.TEXT):
        _carry_out(store, room, found, yes=yes)


def _room(store: "Store", wanted: str | None, size: tuple[int, int] | None, inventory: str | None) -> "RoomRequest":
    """Return what room is wanted: for slices, for a task file or a queued run, or for the first queued run."""
    import os

    from launcher.admission.domains import guessed
    from launcher.admission.moves.planning import room_for_run, room_for_slices
    from launcher.admission.queue.listing import list_queue
    from launcher.config.inventory.read import find_inventory
    from launcher.core.model.run import RunState

    if size is not None:
        fleet = find_inventory(inventory, os.environ, store.home)
        return room_for_slices(guessed(fleet, store.domains.of(fleet.name)), *size)
    if wanted is not None and ("/" in wanted or Path(wanted).suffix in (".yaml", ".yml") or Path(wanted).is_file()):
        return _room_for_task(store, Path(wanted), inventory)
    if wanted is None:
        first = next((run for run in list_queue(store).runs if run.position), None)
        if first is None:
            refuse("no queued run needs room", hint="name a task file with `--for`, or use `--slices` and `--size`")
        wanted = first.id
    row = store.find(wanted)
    if row.state is not RunState.QUEUED:
        hint = "`nvlaunch queue` lists queued runs; a task file needs the ending `.yaml`"
        refuse(f"`{row.name}` is not queued ({row.state.value})", hint=hint)
    return room_for_run(store, store.load(row.id)[0])


def _room_for_task(store: "Store", file: Path, inventory: str | None) -> "RoomRequest":
    from functools import partial

    from launcher.admission.context import AdmissionContext
    from launcher.admission.domains import guessed
    from launcher.admission.moves.planning import RoomRequest
    from launcher.admission.request import RequestSource, read_request
    from launcher.cli.output.admission import AdmissionReport
    from launcher.core.model.run import RunName
    from launcher.drive.adapters import open_prober

    context = AdmissionContext(store=store, open_prober=partial(open_prober, store.home), listener=AdmissionReport())
    request = read_request(context, RequestSource(task=file, inventory=inventory))
    store.check_name(RunName(request.task.name))
    fleet = guessed(request.fleet, store.domains.of(request.fleet.name))
    return RoomRequest(task=request.task, fleet=fleet)


def _check_limits(found: "MovePlan", max_cost: float | None, max_moves: int | None) -> None:
    from launcher.cli.output.defrag import excess
    from launcher.errors import OverLimitError

    if (why := excess(found, max_cost, max_moves)) is not None:
        hint = "allow more with `--max-cost` or `--max-moves`, or wait until runs end"
        raise OverLimitError(f"nothing was moved: {why}", hints=(hint,))


def _carry_out(store: "Store", room: "RoomRequest", found: "MovePlan", *, yes: bool) -> None:
    """Move slice by slice; Ctrl-C ends that with every slice in one place."""
    from functools import partial

    from launcher.admission.moves.execution import PlanExecution
    from launcher.admission.moves.planning import reserve
    from launcher.cli.output.console import agree, clean, say
    from launcher.cli.output.defrag import question
    from launcher.drive.control import stoppable
    from launcher.drive.spawn import ensure_controller
    from launcher.errors import LaunchError
    from launcher.store.stored_plan import PlanState
    from launcher.store.user import User
    from launcher.transport.clock import SystemClock

    agree(question(found), yes=yes)
    with stoppable() as stopped:
        plan = reserve(store, room, found, User.current())
        say(f"Moving slices as {plan.id}. Ctrl-C stops before the next step.")
        execution = PlanExecution(
            store,
            plan,
            SystemClock(),
            ensure=partial(ensure_controller, store.home),
            tell=_tell,
            stopped=stopped,
        )
        ended = execution.run(store.find(room.queued) if room.queued else None)
    if ended.state is PlanState.CANCELLED and stopped():
        say(clean(f"{plan.id} ended: {ended.message}"))
        raise typer.Exit(ExitCode.INTERRUPTED)
    if ended.state is PlanState.CANCELLED:
        raise LaunchError(f"{plan.id} ended: {ended.message}", hints=("run the command again for a new plan",))
    say(clean(f"{plan.id} done: {ended.message}"))
    if room.queued is None and room.kept:
        say(f"The room is kept for `{room.task.name}` for 10 minutes. Start it: nvlaunch up FILE")


def _tell(news: "StepProgress") -> None:
    from launcher.admission.moves.execution import StepState
    from launcher.cli.output.console import clean, say
    from launcher.cli.output.defrag import progress_text

    if news.state is not StepState.MOVING:  # while its ranks run on, nothing has happened to it
        say(clean(progress_text(news)))
