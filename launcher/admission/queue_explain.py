"""The line of runs that wait for nodes of one inventory, and in words why each waits."""

import time
from collections.abc import Iterable, Mapping, Sequence

from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Taken
from launcher.core.model.run import RunId, RunName
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.core.placement.place import place
from launcher.core.queue.backfill import Turn, Waiting, turns
from launcher.store.queue import World
from launcher.store.store import Store

_LAST = float("inf")


def line(fleet: Inventory, world: World, more: Sequence[Waiting] = ()) -> tuple[Turn, ...]:
    """Return the turn of each run that waits for nodes of an inventory and has somebody to start it, and of `more`."""
    known = {one.id for one in more}
    waiting = [one for one in world.waiting if one.id in world.driven and one.id not in known]
    return turns((*waiting, *more), fleet, world.taken, world.going)


def not_free(store: Store, fleet: Inventory, task: Task) -> Mapping[NodeName, Taken]:
    """Return what is not free to a task that does not wait: also what runs that wait and come before it will need.

    It comes after those of its own priority. With very many in the queue nothing is free to it.
    """
    if store.queue.empty(fleet.name):
        return store.taken(fleet)
    world = store.queue.world(fleet.name, time.time())
    if not world.driven:
        return world.taken
    mine = Waiting(id=RunId(""), name=RunName(task.name), task=task, since=_LAST)
    found = next((turn for turn in line(fleet, world, (mine,)) if turn.waiting is mine), None)
    if found is None:
        return {**{node.name: Taken(by_run="the queue") for node in fleet.nodes}, **world.taken}
    return {**found.taken, **{name: Taken(by_run=f"{who} (queued)") for name, who in found.kept.items()}}


def reason(turn: Turn, fleet: Inventory, world: World) -> str:
    """Return why one waits."""
    if turn.victims:
        return f"waits until {_named(turn.victims)} {'has' if len(turn.victims) == 1 else 'have'} stopped for it"
    barred = {name: mark for name, mark in turn.taken.items() if mark.sick}
    alone = place(turn.waiting.task, fleet, {**world.taken, **barred})
    if isinstance(alone, Shortfall):
        return lack(alone)
    if turn.placement is not None:
        return "it can start"
    return f"it would fit, but nodes are kept for {_named(_before(turn, alone))}, which comes first"


def _before(turn: Turn, alone: Placement) -> list[RunName]:
    in_the_way = {who for name, who in turn.kept.items() if name in alone.nodes}
    return sorted(in_the_way or set(turn.kept.values()))


def lack(shortfall: Shortfall) -> str:
    """Return a refusal in a few words: what one slice needs, what there is, and who has the rest."""
    need = shortfall.nodes_per_slice + shortfall.spares
    users = sorted({user for rack in shortfall.racks for user in rack.users})
    by = f"; in use by {_named(users)}" if users else ""
    own = ", each" if shortfall.slices > 1 else ""
    each = f"{count(shortfall.slices, 'slice')} of {count(need, 'node')}{own} in one {shortfall.within}"
    found = f"{shortfall.placed} of them fit now, and the most free in one place is {shortfall.largest}"
    return f"`{shortfall.group}` needs {each}: {found}{by}"


def status_message(run: RunId, turn_of: Sequence[Turn], why: str) -> str:
    """Return one sentence on where one stands in the line."""
    ids = [turn.waiting.id for turn in turn_of]
    place_in_line = f"number {ids.index(run) + 1} of {len(ids)}" if run in ids else f"behind {len(ids)} others"
    return f"{place_in_line} in the queue: {why}"


def _named(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
