"""`up` for a run that goes on, with more or fewer slices: the difference first, then what is new alone is claimed."""

import time
from collections.abc import Iterator
from dataclasses import replace

from launcher.admission.preflight import guessed
from launcher.admission.reallocate import StoreAllotter
from launcher.cli.intake import Request
from launcher.cli.launching import free
from launcher.cli.node_arguments import author
from launcher.cli.options import home
from launcher.cli.output.console import agree, clean, say
from launcher.cli.output.table import table
from launcher.core.model.actions import Result
from launcher.core.model.nodeset import fold
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.placement import Shortfall, Slice
from launcher.core.model.run import Run, RunState, Wanted
from launcher.core.model.task import Group, Task
from launcher.core.model.text import count
from launcher.core.placement.resize import ResizePlan, resize
from launcher.drive.control import open_prober
from launcher.errors import LaunchError, LeaseHeldError, NoCapacityError
from launcher.store.rows import RunRow
from launcher.store.store import Store

_LIVE = (RunState.STARTING, RunState.RUNNING, RunState.RECOVERING, RunState.ON_HOLD)


def live(store: Store, request: Request) -> RunRow | None:
    """Return the run of the task's name that can get other slices than it has; None where the task asks for none."""
    for row in store.unfinished():
        if row.name != request.task.name or row.state not in _LIVE or row.fleet != request.fleet.name:
            continue
        run, record = store.load(row.id)
        if run.wanted is Wanted.RUNNING and record.outcome is None and request.task != run.task:
            return row
    return None


def change(store: Store, request: Request, row: RunRow, *, yes: bool) -> None:
    """Ask its owner, and then the run, to go on with the slices that the task has now; what stays keeps its nodes.

    LeaseHeldError where more than the number of slices is other, NoCapacityError where what comes does not fit.
    """
    run, _ = store.load(row.id)
    _check(run, request.task)
    fleet = guessed(request.fleet, store.domains(request.fleet.name))
    ours = set(run.placement.nodes)
    unavailable = {name: use for name, use in free(store, request).items() if name not in ours}
    found = resize(request.task, fleet, unavailable, run.placement)
    if isinstance(found, Shortfall):
        raise NoCapacityError(found)
    say(_difference(run, found))
    agree(f"change `{run.name}`? its ranks get `stop_signal`, and all start once more", yes=yes)
    answer = StoreAllotter(store, lambda whole: open_prober(home(), whole)).retarget(run, request.task)
    if answer.result is not Result.DONE:
        hint = f"take it down with `nvlaunch down {run.name}`, and start it anew"
        raise LaunchError(clean(f"`{run.name}` stays as it is: {answer.message}"), hints=(hint,))
    store.orders.give(run.id, RequestKind.RESIZE, by=author(), at=time.time())


def _check(run: Run, task: Task) -> None:
    others = sorted(set(_others(run.task, task)))
    if others:
        named = ", ".join(f"`{name}`" for name in others)
        what = f"`{run.name}` runs, and only the number of its slices can change meanwhile: {named} is another one"
        hints = (f"take it down with `nvlaunch down {run.name}` first", "choose another name with `--name`")
        raise LeaseHeldError(what, holder=run.id, hints=hints)


def _others(before: Task, now: Task) -> Iterator[str]:
    """Return the keys of a task, but for the number of slices, that have another value."""
    if [group.name for group in before.groups] != [group.name for group in now.groups]:
        yield "groups"
        return
    for key in before.__slots__:
        if key != "groups" and getattr(before, key) != getattr(now, key):
            yield key
    for old, new in zip(before.groups, now.groups, strict=True):
        yield from _of_group(old, new)


def _of_group(old: Group, new: Group) -> Iterator[str]:
    # A guest's setup ran where it sits, and nowhere else: only those that have nodes of their own get others.
    own = new.topology.nodes_of is None
    alike = replace(new, topology=replace(new.topology, slices=old.topology.slices)) if own else new
    for key in old.__slots__:
        if getattr(old, key) != getattr(alike, key):
            yield key


def _difference(run: Run, found: ResizePlan) -> str:
    """Return what comes and what goes, and how much stays."""
    rows = [_row("+", part) for part in found.added] + [_row("-", part) for part in found.removed]
    stays = len(run.placement.slices) - len(found.removed)
    kept = f"{count(stays, 'slice')} of `{run.name}` {'stays where it is' if stays == 1 else 'stay where they are'}"
    return "\n".join((kept, table(("", "SLICE", "RACK", "NODES", "SPARES"), rows, indent="  ")))


def _row(sign: str, part: Slice) -> tuple[str, ...]:
    return sign, part.key, part.place, fold(part.nodes), fold(part.spares) if part.spares else ""
