"""The order of queued runs of an inventory, and why each of them waits."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, Inventory
from launcher.core.model.placement import Placement, Shortfall, Unavailable, UnavailableNodes
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.placement.place import place
from launcher.core.queue.backfill import QueueDecision, QueuedRun, schedule
from launcher.core.queue.timeline import free_to
from launcher.store.queue import QueueState
from launcher.store.store import Store

_LAST = float("inf")


def queue_order(fleet: Inventory, state: QueueState, more: Sequence[QueuedRun] = ()) -> tuple[QueueDecision, ...]:
    """Return the turns of queued runs with a controller, and of `more`, in order."""
    known = {one.id for one in more}
    waiting = [one for one in state.waiting if one.id in state.driven and one.id not in known]
    cooling = {one.id: one.cools_down for one in state.waiting if one.cools_down}
    asked = (replace(one, cools_down=cooling[one.id]) if one.id in cooling else one for one in more)
    return schedule((*waiting, *asked), fleet, state.unavailable, state.going)


def not_free(store: Store, fleet: Inventory, task: Task) -> UnavailableNodes:
    """Return the nodes that are not free to a task that starts now.

    Nodes that queued runs before it need are included.

    It comes after queued runs of its own priority. Where the queue is too long to compute, no node is free to it.
    """
    if store.queue.empty(fleet.name):
        return free_to(store.unavailable(fleet), task.name)
    state = store.queue.state(fleet.name, time.time())
    if not state.driven:
        return free_to(state.unavailable, task.name)
    # To a plan for the task of a run that is going, the nodes of that run are as those of any other.
    name = f"{task.name} (new)" if any(run.name == task.name for run in state.going) else task.name
    mine = QueuedRun(id=RunId(""), name=RunName(name), task=task, since=_LAST)
    found = next((turn for turn in queue_order(fleet, state, (mine,)) if turn.run is mine), None)
    if found is None:
        return {**{node.name: Unavailable(used_by="the queue") for node in fleet.nodes}, **state.unavailable}
    reserved = {name: Unavailable(used_by=f"{who} (queued)") for name, who in found.reserved.items()}
    return {**found.unavailable, **reserved}


def reason(turn: QueueDecision, fleet: Inventory, state: QueueState) -> str:
    """Return why a run waits."""
    if turn.victims:
        return f"waits for preempted {_named(turn.victims)} to stop"
    unhealthy = {name: mark for name, mark in turn.unavailable.items() if mark.unhealthy}
    alone = place(turn.run.task, fleet, {**free_to(state.unavailable, turn.run.name), **unhealthy})
    if isinstance(alone, Shortfall):
        cools = "; preempts nothing yet, as its last run ended soon after it preempted" if turn.run.cools_down else ""
        return shortfall_summary(alone) + cools
    if turn.placement is not None:
        return "can start"
    return f"fits, but its nodes are reserved for {_named(_before(turn, alone))}, earlier in the queue"


def _before(turn: QueueDecision, alone: Placement) -> list[RunName]:
    in_the_way = {who for name, who in turn.reserved.items() if name in alone.nodes}
    return sorted(in_the_way or set(turn.reserved.values()))


def shortfall_summary(shortfall: Shortfall) -> str:
    """Return a shortfall in one sentence.

    What is needed, what is free, and which runs use the rest.
    """
    need = shortfall.nodes_per_slice + shortfall.spares
    users = sorted({user for rack in shortfall.racks for user in rack.users})
    kept = sorted({run for rack in shortfall.racks for run in rack.reserved})
    by = f"; in use by {_named(users)}" if users else ""
    by += f"; reserved for {_named(kept)}" if kept else ""
    own = ", each" if shortfall.slices > 1 else ""
    where = "" if shortfall.within == ANY_LEVEL else f"{own} {_within(shortfall.within)}"
    each = f"{count(shortfall.slices, 'slice')} of {count(need, 'node')}{where}"
    return f"`{shortfall.group}` needs {each}: {_found(shortfall, need)}{by}"


def _found(shortfall: Shortfall, need: int) -> str:
    """Return how many slices fit now, and how much room there is for one more of `need` nodes."""
    placed, level = shortfall.placed, shortfall.within
    where = "the inventory" if level in (ANY_LEVEL, NODE_LEVEL) else f"the best {level}"
    parts = [f"{placed} of {shortfall.slices} {'fits' if placed == 1 else 'fit'} now"] if shortfall.slices > 1 else []
    if shortfall.largest < need:
        parts.append(f"{where} has {count(shortfall.largest, 'free node')}")
    return ", ".join(parts) or "it does not fit now"


def _within(level: str) -> str:
    return "on one node" if level == NODE_LEVEL else f"in one {level}"


def status_message(run: RunId, order: Sequence[QueueDecision], waiting: int, why: str) -> str:
    """Return the place of a run in the queue, and why it waits.

    `waiting` counts all queued runs, also those whose controllers are about to start: nothing tells when they do.
    """
    ids = [turn.run.id for turn in order]
    position = f"number {ids.index(run) + 1} of {max(waiting, len(ids))}" if run in ids else f"behind {len(ids)} others"
    return f"{position} in the queue: {why}"


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
