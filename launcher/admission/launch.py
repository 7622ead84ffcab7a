"""Start or resize a run.

A start is tried again where others took its nodes.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import Enum

from launcher.admission.checked_placement import CheckedPlacement, MovedError, checked
from launcher.admission.context import AdmissionContext
from launcher.admission.listener import NodesLost, TaskPlaced
from launcher.admission.plan import never_fits, unavailable
from launcher.admission.request import Request
from launcher.admission.resize import find_resizable, request_resize
from launcher.admission.run_files import check_out, copy_files, upload_buckets, weigh
from launcher.core.model.actions import Acquire
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement
from launcher.core.model.receipt import Result
from launcher.core.model.run import Cause, Run, RunId, RunName, RunState
from launcher.core.model.task import Task
from launcher.core.planner.placement_cost import slice_costs
from launcher.errors import NoCapacityError
from launcher.setup.lease import Holder, read_holder
from launcher.store.rows import RunRow
from launcher.store.run_files import mark_whole, secrets_file, write_secrets
from launcher.transport.clock import pause

MAX_ATTEMPTS = 5
"""How often a task is placed before it gives up, because others took nodes of it each time."""

YIELD_S = 6.0
"""How long a run that yields waits (s): the other run needs it to acquire the nodes that both have released."""


class Acceptance(Enum):
    """How a run was accepted."""

    STARTED = "started"
    QUEUED = "queued"
    RESIZED = "resized"


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRun:
    """A run that is stored and needs a controller.

    Journal entries up to `after` are older than the request. `interrupted`: Ctrl-C came after the run was stored.
    """

    id: RunId
    name: RunName
    how: Acceptance
    after: int = 0
    interrupted: bool = False


Drive = Callable[[AcceptedRun], RunRow]
"""Gives an accepted run a controller, and returns the run at the latest when it has ended."""


def admit(context: AdmissionContext, request: Request, drive: Drive) -> RunRow:
    """Start a task, or resize the run of its name.

    Return the run as `drive` left it.

    NoCapacityError where it does not fit, ConflictError where others hold its nodes or its name.
    """
    running = find_resizable(context, request)
    if running is not None:
        after = context.store.journal.last(running.id)
        request_resize(context, request, running)
        return drive(AcceptedRun(id=running.id, name=running.name, how=Acceptance.RESIZED, after=after))
    context.store.check_name(RunName(request.task.name))
    task = check_out(context.listener, request.task, request.fleet, context.store.home)
    request = replace(request, task=task)
    try:
        return _start(context, request, drive)
    except NoCapacityError as error:
        if never_fits(context, request) is None:
            error.hints += ("`nvlaunch up --queue` waits until it fits",)
        raise


def _start(context: AdmissionContext, request: Request, drive: Drive) -> RunRow:
    held: dict[NodeName, Holder] = {}
    for attempt in range(1, MAX_ATTEMPTS + 1):
        run, interrupted = _accept(context, request, held)
        row = drive(AcceptedRun(id=run.id, name=run.name, how=Acceptance.STARTED, interrupted=interrupted))
        if attempt == MAX_ATTEMPTS or not (others := _lost(context, row)):
            return row
        held |= others
        context.listener.notify(NodesLost(name=run.name, held=others))
        _yield_to(others, run)
    raise AssertionError("the last attempt returns")


def _accept(context: AdmissionContext, request: Request, held: Mapping[NodeName, Holder]) -> tuple[Run, bool]:
    """Return the run, and whether Ctrl-C came after it was stored.

    Before that, Ctrl-C leaves nothing behind.
    """
    run: Run | None = None
    try:
        with checked(context, request, held) as placement:
            found = placement.place(unavailable(context, request))
            context.listener.notify(placed(request.task, found, placement.fleet))
            if not held:  # the first attempt
                weigh(context.listener, request.task, request.fleet)
                context.listener.confirm(f"start `{request.task.name}`?")
            _pass_check(context, request, placement)
            claimed = claim(context, request, placement)
            store_files(context, request, claimed)
            run = claimed
    except KeyboardInterrupt:
        if run is None:
            raise
        return run, True
    return run, False


def claim(context: AdmissionContext, request: Request, placement: CheckedPlacement) -> Run:
    """Store the run with its claims.

    Where other runs came first, it is placed again, and that is reported.
    """
    while True:
        try:
            return context.store.launch(
                name=RunName(request.task.name),
                task=request.task,
                fleet=placement.fleet,
                decide=lambda _: placement.decide(unavailable(context, request)),
                source=request.source,
                at=time.time(),
            )
        except MovedError:
            found = placement.place(unavailable(context, request))
            context.listener.notify(placed(request.task, found, placement.fleet, again=True))
            _pass_check(context, request, placement)


def _pass_check(context: AdmissionContext, request: Request, placement: CheckedPlacement) -> None:
    """Check the nodes with `before_start`; where some are replaced, that is reported."""
    found = placement.pass_check(lambda: unavailable(context, request))
    if found is not None:
        context.listener.notify(placed(request.task, found, placement.fleet))


def placed(task: Task, placement: Placement, fleet: Inventory, *, again: bool = False) -> TaskPlaced:
    """Return the notice of a placement, with what each slice costs."""
    costs = slice_costs(task, placement.slices, fleet)
    return TaskPlaced(task=task, placement=placement, costs=costs, again=again)


def store_files(context: AdmissionContext, request: Request, run: Run) -> None:
    """Store the secrets and files of a run.

    Where that fails, or Ctrl-C comes, the run ends.
    """
    home = context.store.home
    try:
        write_secrets(secrets_file(home, run.id), request.secrets)
        upload_buckets(context.listener, run, request.secrets)
        for path in copy_files(home, run):
            message = f"`{path}` was written while it was copied: nodes may get parts of the old and of the new one"
            context.store.journal.warn(run.id, "files", message, time.time())
        mark_whole(home, run.id)
    except BaseException:
        context.store.finish(run.id, RunState.FAILED, time.time())
        raise


def _lost(context: AdmissionContext, row: RunRow) -> dict[NodeName, Holder]:
    """Return who holds which nodes of a run that ended because of that."""
    if row.ended is None or row.outcome is None or row.outcome.cause is not Cause.LEASE_HELD:
        return {}
    return {
        receipt.action.node: read_holder(receipt.answer.message)
        for receipt in context.store.receipts_after(row.id, 0)
        if isinstance(receipt.action, Acquire) and receipt.answer.result is Result.HELD
    }


def _yield_to(held: Mapping[NodeName, Holder], run: Run) -> None:
    """Wait where another run has precedence.

    Two that start at once may each hold a node that the other needs, and both release theirs. Then the one with the
    smaller id goes first, and the other waits until it can see who has the nodes.
    """
    if any(holder.run and holder.run < run.id for holder in held.values()):
        pause(YIELD_S)
