"""`up --queue`: a run that waits for its turn, where it could come at all."""

from launcher.admission.preflight import guessed
from launcher.admission.queue_explain import lack
from launcher.cli.commands.plan import say_plan
from launcher.cli.driving import SETTLE_S, Ways, drive_here, spawn
from launcher.cli.follow import leaving
from launcher.cli.intake import Request
from launcher.cli.launching import enqueue, free, seen_in_line
from launcher.cli.output.console import agree, say
from launcher.cli.parcel import tell_files
from launcher.core.model.placement import Placement, Shortfall
from launcher.core.placement.place import place
from launcher.errors import NoCapacityError
from launcher.store.rows import RunRow
from launcher.store.store import Store


def could_ever(store: Store, request: Request) -> Shortfall | None:
    """Return why a task would not fit if nobody had a node and all were well; None where it would."""
    answer = place(request.task, guessed(request.fleet, store.domains(request.fleet.name)), {})
    return answer if isinstance(answer, Shortfall) else None


def wait(store: Store, request: Request, ways: Ways) -> RunRow:
    """Return a run that is in the queue, or has begun at once; NoCapacityError where its turn could never come."""
    if (never := could_ever(store, request)) is not None:
        raise NoCapacityError(never)
    fleet = guessed(request.fleet, store.domains(request.fleet.name))
    now = place(request.task, fleet, free(store, request))
    if isinstance(now, Placement):
        say_plan(request, now)
    else:
        say(f"it does not fit now: {lack(now)}")
    tell_files(request.task, request.fleet)
    agree(f"put `{request.task.name}` into the queue?", yes=ways.yes)
    run = enqueue(store, request)
    if ways.foreground:
        return drive_here(store, run.id)
    with leaving(run.name):
        spawn(store, run)
        return seen_in_line(store, run, SETTLE_S)
