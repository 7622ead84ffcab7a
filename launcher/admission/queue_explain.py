"""The line of runs that wait for nodes of one inventory, and in words why each waits."""

import time
from collections.abc import Iterable, Sequence

from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, Shortfall, Unavailable, UnavailableNodes
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.placement.place import place
from launcher.core.queue.backfill import QueueDecision, QueuedRun, schedule
from launcher.store.queue import World
from launcher.store.store import Store

_LAST = float("inf")


def line(fleet: Inventory, world: World, more: Sequence[QueuedRun] = ()) -> tuple[QueueDecision, ...]:
    """Return the turn of each run that waits for nodes of an inventory and has somebody to start it, and of `more`."""
    known = {one.id for one in more}
    waiting = [one for one in world.waiting if one.id in world.driven and one.id not in known]
    return schedule((*waiting, *more), fleet, world.unavailable, world.going)


def not_free(store: Store, fleet: Inventory, task: Task) -> UnavailableNodes:
    """Return what is not free to a task that does not wait: also what runs that wait and come before it will need.

    It comes after those of its own priority. With very many in the queue nothing is free to it.
    """
    if store.queue.empty(fleet.name):
        return store.unavailable(fleet)
    world = store.queue.world(fleet.name, time.time())
    if not world.driven:
        return world.unavailable
    mine = QueuedRun(id=RunId(""), name=RunName(task.name), task=task, since=_LAST)
    found = next((turn for turn in line(fleet, world, (mine,)) if turn.run is mine), None)
    if found is None:
        return {**{node.name: Unavailable(used_by="the queue") for node in fleet.nodes}, **world.unavailable}
    return {
        **found.unavailable,
        **{name: Unavailable(used_by=f"{who} (queued)") for name, who in found.reserved.items()},
    }


def reason(turn: QueueDecision, fleet: Inventory, world: World) -> str:
    """Return why one waits."""
    if turn.victims:
        return f"waits until {_named(turn.victims)} {'has' if len(turn.victims) == 1 else 'have'} stopped for it"
    barred = {name: mark for name, mark in turn.unavailable.items() if mark.unhealthy}
    alone = place(turn.run.task, fleet, {**world.unavailable, **barred})
    if isinstance(alone, Shortfall):
        return lack(alone)
    if turn.placement is not None:
        return "it can start"
    return f"it would fit, but nodes are kept for {_named(_before(turn, alone))}, which comes first"


def _before(turn: QueueDecision, alone: Placement) -> list[RunName]:
    in_the_way = {who for name, who in turn.reserved.items() if name in alone.nodes}
    return sorted(in_the_way or set(turn.reserved.values()))


def lack(shortfall: Shortfall) -> str:
    """Return a refusal in a few words: what one slice needs, what there is, and who has the rest."""
    need = shortfall.nodes_per_slice + shortfall.spares
    users = sorted({user for rack in shortfall.racks for user in rack.users})
    by = f"; in use by {_named(users)}" if users else ""
    own = ", each" if shortfall.slices > 1 else ""
    each = f"{count(shortfall.slices, 'slice')} of {count(need, 'node')}{own} in one {shortfall.within}"
    found = f"{shortfall.placed} of them fit now, and the most free in one place is {shortfall.largest}"
    return f"`{shortfall.group}` needs {each}: {found}{by}"


def status_message(run: RunId, turn_of: Sequence[QueueDecision], why: str) -> str:
    """Return one sentence on where one stands in the line."""
    ids = [turn.run.id for turn in turn_of]
    place_in_line = f"number {ids.index(run) + 1} of {len(ids)}" if run in ids else f"behind {len(ids)} others"
    return f"{place_in_line} in the queue: {why}"


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
