"""Moves that nobody asks for: which waiting run is worth them, by the policy of its inventory."""

import time
from dataclasses import dataclass

from launcher.admission.moves.planning import RoomRequest, plan_moves, room_for_run
from launcher.admission.queue.explain import queue_order
from launcher.core.model.run import RunName
from launcher.core.planner.defragment import MovePlan
from launcher.core.planner.worth import Ground, Verdict, WaitFigures, judge
from launcher.core.queue.backfill import QueueDecision
from launcher.store.store import Store

CANDIDATES = 3
"""How many waiting runs, first in the queue, are considered: each takes a plan."""

DAY_S = 86400.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Consideration:
    """What was decided about moves for one waiting run; `plan` where they are worth it."""

    name: RunName
    room: RoomRequest
    verdict: Verdict
    plan: MovePlan | None


def fleets_that_wait(store: Store) -> tuple[str, ...]:
    """Return the inventories that runs are queued for, by name."""
    return tuple(sorted({row.fleet for row in store.live()[0] if not store.queue.empty(row.fleet)}))


def consider(store: Store, fleet: str) -> tuple[Consideration, ...]:
    """Return what is decided about the first waiting runs of an inventory, up to the first that is worth moves.

    Runs that start now, or for which others are preempted, need none.
    """
    now = time.time()
    state = store.queue.state(fleet, now)
    waiting = [one for one in state.waiting if one.id in state.driven]
    if not waiting or any(plan.alive(now) for plan in store.move_plans.of(fleet)):
        return ()
    whole = room_for_run(store, store.load(waiting[0].id)[0]).fleet
    found: list[Consideration] = []
    for turn in queue_order(whole, state)[:CANDIDATES]:
        if turn.placement is not None or turn.victims:
            continue
        found.append(_consider(store, turn, now))
        if found[-1].plan is not None:
            break
    return tuple(found)


def _consider(store: Store, turn: QueueDecision, now: float) -> Consideration:
    room = room_for_run(store, store.load(turn.run.id)[0])
    plan, local = plan_moves(store, room), time.localtime(now)
    spent = sum(one.spent for one in store.move_plans.of(room.fleet.name) if now - DAY_S < one.created <= now)
    figures = WaitFigures(
        waited_s=now - turn.run.since,
        starts_in_s=turn.after,
        spent_gpu_hours=spent,
        minute=local.tm_hour * 60 + local.tm_min,
    )
    verdict = judge(plan, room.task, room.fleet, room.fleet.defrag, figures)
    chosen = plan if verdict.ground is Ground.WORTH and isinstance(plan, MovePlan) else None
    return Consideration(name=turn.run.name, room=room, verdict=verdict, plan=chosen)
