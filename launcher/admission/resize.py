"""A task that is given again while its run goes on.

A change of the number of slices.
"""

import time
from collections.abc import Iterator
from dataclasses import replace

from launcher.admission.context import AdmissionContext
from launcher.admission.domains import guessed
from launcher.admission.listener import ResizePlanned
from launcher.admission.plan import unavailable
from launcher.admission.reallocate import StoreAllotter
from launcher.admission.request import Request
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Shortfall
from launcher.core.model.receipt import Result
from launcher.core.model.run import Run, RunState, Wanted
from launcher.core.model.task import Group, Task
from launcher.core.placement.resize import resize
from launcher.errors import ConflictError, LaunchError, NoCapacityError
from launcher.store.rows import RunRow
from launcher.store.user import User

_RESIZABLE = (RunState.STARTING, RunState.RUNNING, RunState.RECOVERING, RunState.ON_HOLD)

_KEYS = {"git": "workdir", "readiness": "service"}
"""What people write for a field of a task or a group, where that is another word."""


def find_resizable(context: AdmissionContext, request: Request) -> RunRow | None:
    """Return the run of the task's name that could be resized.

    None where there is none, or the task is unchanged but for `traffic`, which only predictions use.
    """
    for row in context.store.live()[0]:
        if row.name != request.task.name or row.state not in _RESIZABLE or row.fleet != request.fleet.name:
            continue
        run, record = context.store.load(row.id)
        if run.wanted is not Wanted.RUNNING or record.outcome is not None:
            continue
        # How many slices of a range it has now is no change of the task.
        if _at_work(request.task) != _at_work(run.task.full()):
            return row
    return None


def _at_work(task: Task) -> Task:
    """Return a task without what only predictions use."""
    return replace(task, groups=tuple(replace(group, traffic=None) for group in task.groups))


def request_resize(context: AdmissionContext, request: Request, row: RunRow) -> None:
    """Claim nodes for new slices of a run, and ask it to change.

    Slices that stay keep their nodes.

    ConflictError where more than the number of slices differs, NoCapacityError where the new slices do not fit.
    """
    store = context.store
    run, _ = store.load(row.id)
    _check_only_slices(run, request.task)
    request = replace(request, task=replace(request.task, git=run.task.git))  # as it was cloned at the start
    fleet = guessed(request.fleet, store.domains.of(request.fleet.name))
    own = set(run.placement.nodes)
    taken = {name: use for name, use in unavailable(context, request).items() if name not in own}
    found = resize(request.task, fleet, taken, run.placement)
    if isinstance(found, Shortfall):
        raise NoCapacityError(found)
    context.listener.notify(ResizePlanned(run=run, difference=found))
    context.listener.confirm(f"resize `{run.name}`? all its ranks get `stop_signal` and restart once")
    answer = StoreAllotter(store, context.open_prober).retarget(run, request.task)
    if answer.result is not Result.DONE:
        hint = f"end it with `nvlaunch down {run.name}`, then start it again"
        raise LaunchError(f"`{run.name}` is unchanged: {answer.message}", hints=(hint,))
    store.requests.add(run.id, RequestKind.RESIZE, by=str(User.current()), at=time.time())


def _check_only_slices(run: Run, task: Task) -> None:
    changed = sorted(set(_changed(run.task, task)))
    if changed:
        named = ", ".join(f"`{name}`" for name in changed)
        what = f"{named} changed; only the number of slices can change while `{run.name}` is running"
        hints = (f"end it with `nvlaunch down {run.name}` first", "or use another name with `--name`")
        raise ConflictError(what, holder=run.id, hints=hints)


def _changed(before: Task, now: Task) -> Iterator[str]:
    """Return the keys whose values differ, apart from the number of slices."""
    if [group.name for group in before.groups] != [group.name for group in now.groups]:
        yield "groups"
        return
    for key in before.__slots__:
        if key not in ("groups", "given_envs") and getattr(before, key) != getattr(now, key):
            yield _KEYS.get(key, key)
    for old, new in zip(_at_work(before).groups, _at_work(now).groups, strict=True):
        yield from _changed_in_group(old, new)


def _changed_in_group(old: Group, new: Group) -> Iterator[str]:
    # A colocated group cannot get other nodes: its setup ran where it is.
    own_nodes = new.topology.nodes_of is None
    rule, before = new.topology, old.topology
    rule = replace(rule, slices=before.slices, min_slices=before.min_slices, max_slices=before.max_slices)
    alike = replace(new, topology=rule) if own_nodes else new
    if old.secrets is None:  # of a version that did not tell them apart
        alike = replace(alike, secrets=None)
    for key in old.__slots__:
        if getattr(old, key) != getattr(alike, key):
            yield _KEYS.get(key, key)
