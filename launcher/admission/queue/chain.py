"""Runs that come one after the other: the tasks of a pipeline, and a run after another one.

They go through the queue: each is a queued run that depends on the one before it.
"""

import time
from collections.abc import Sequence
from dataclasses import replace

from launcher.admission.context import AdmissionContext
from launcher.admission.domains import guessed
from launcher.admission.launch import Acceptance, AcceptedRun, Drive, admit, placed, store_files
from launcher.admission.listener import DoesNotFitNow
from launcher.admission.plan import never_fits, unavailable
from launcher.admission.request import Request
from launcher.admission.resize import find_resizable
from launcher.admission.run_files import check_out, weigh
from launcher.core.model.placement import Placement
from launcher.core.model.run import RunId, RunName, RunState
from launcher.core.placement.place import place
from launcher.errors import NoCapacityError, refuse
from launcher.store.chains import NewEntry
from launcher.store.rows import RunRow


def admit_chain(
    context: AdmissionContext, requests: Sequence[Request], *, after: str | None = None
) -> tuple[AcceptedRun, ...]:
    """Queue runs that come one after the other, the first after the run `after`, a name or an id.

    All are stored at once; the first needs a controller, those after it get one when their turn comes.
    NoCapacityError where one can never fit, ConflictError where a run of one of the names has not ended, SpecError
    where `after` has not succeeded.
    """
    before = None if after is None else _before(context, after)
    for request in requests:
        context.store.check_name(RunName(request.task.name))
        if (never := never_fits(context, request)) is not None:
            raise NoCapacityError(never)
    requests = [
        replace(one, task=check_out(context.listener, one.task, one.fleet, context.store.home)) for one in requests
    ]
    for request in requests:
        _show(context, request)
    names = ", then ".join(f"`{request.task.name}`" for request in requests)
    context.listener.confirm(f"queue {names}?")
    entries = [
        NewEntry(name=RunName(one.task.name), task=one.task, fleet=one.fleet, source=one.source) for one in requests
    ]
    runs = context.store.chains.put(entries, at=time.time(), after=before)
    for request, run in zip(requests, runs, strict=True):
        store_files(context, request, run)
    return tuple(AcceptedRun(id=run.id, name=run.name, how=Acceptance.QUEUED) for run in runs)


def admit_queued(context: AdmissionContext, request: Request, drive: Drive) -> RunRow:
    """Queue a task, or resize the run of its name; return the run as `drive` left it. Errors are those of `admit`."""
    if find_resizable(context, request) is not None:
        return admit(context, request, drive)
    (accepted,) = admit_chain(context, (request,))
    return drive(accepted)


def _before(context: AdmissionContext, word: str) -> RunId:
    row = context.store.find(word)
    last = context.store.find(context.store.chains.last(row.id))
    if last.ended is not None and last.state is not RunState.SUCCEEDED:
        refuse(f"`{last.name}` did not succeed ({last.state.value}): a run after it would never start", where="--after")
    run, _ = context.store.load(last.id)
    return run.first or run.id


def _show(context: AdmissionContext, request: Request) -> None:
    """Report where a task would run now, or why it does not fit now, and which files it sends."""
    fleet = guessed(request.fleet, context.store.domains.of(request.fleet.name))
    now = place(request.task, fleet, unavailable(context, request))
    if isinstance(now, Placement):
        context.listener.notify(placed(request.task, now, fleet))
    else:
        context.listener.notify(DoesNotFitNow(task=request.task, shortfall=now))
    weigh(context.listener, request.task, request.fleet)
