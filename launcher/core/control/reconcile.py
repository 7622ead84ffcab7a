"""Decide what to do next about one run. Pure: equal inputs give an equal decision."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from typing_extensions import assert_never

from launcher.core.control.conditions import Condition, all_conditions, fix_conditions
from launcher.core.control.drain import drain
from launcher.core.control.fencing import fence, query_power
from launcher.core.control.gang_failure import judge_gangs
from launcher.core.control.gang_start import start_gangs
from launcher.core.control.head_failover import keep_head
from launcher.core.control.head_start import start_head
from launcher.core.control.headline import asked_servers, progress, standing
from launcher.core.control.node_failure import replace_nodes
from launcher.core.control.operator import apply_requests
from launcher.core.control.receipts import apply_receipts, apply_sightings
from launcher.core.control.reservation import reserve_slices
from launcher.core.control.shared_fault import find_shared_fault
from launcher.core.control.slice_count import grow
from launcher.core.control.slots.spare_raylets import start_spares
from launcher.core.control.spares import check_spares, return_surplus
from launcher.core.control.startup import acquire_leases, bring_up
from launcher.core.control.state import Tick
from launcher.core.control.teardown import ending, enforce_time_limit, release_unused, tear_down
from launcher.core.control.timing import BUSY_S, RELEASE_PENDING_S, STEADY_S
from launcher.core.model.actions import Action
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Observation
from launcher.core.model.record import Record
from launcher.core.model.run import MemberName, Run, RunState

Stage: TypeAlias = Callable[[Tick], None]


class When(Enum):
    """In which ticks a stage is due.

    Each but ENDING implies those before it; the answer may change from stage to stage.
    """

    ALWAYS = "in every tick"
    GOING_ON = "while no outcome is decided"
    NO_FAULT = "while no shared fault waits for an operator"
    LEASED = "while every node that the run needs is leased"
    ENDING = "once an outcome is decided"


STAGES: tuple[tuple[Stage, When], ...] = (
    (apply_receipts, When.ALWAYS),  # what finished actions change in the record
    (apply_sightings, When.ALWAYS),  # what this look shows and the next may not: silence, exits
    (apply_requests, When.ALWAYS),  # confirm-dead, resume, relocate, readmit, resize, preempt, down; recovered nodes
    # Faults of many nodes are found before gangs are judged: nothing is replaced and no restart is spent on them.
    (find_shared_fault, When.GOING_ON),
    (judge_gangs, When.GOING_ON),  # whose fault an exit, a hang or a bad health report is: program, node, neither
    (enforce_time_limit, When.GOING_ON),
    # Spares are checked before a slot needs one. Drains go before failures: a slot that leaves its node anyway is not
    # judged there. Both may take spares, and only then it is known whether the head can stay.
    (check_spares, When.NO_FAULT),
    (query_power, When.NO_FAULT),
    (drain, When.NO_FAULT),
    (replace_nodes, When.NO_FAULT),  # failed nodes: restart in place, hand the slot to a spare, ask for another node
    (keep_head, When.NO_FAULT),  # the head leaves a lost or drained machine
    (fence, When.GOING_ON),  # kill what must not go on, before anything starts again
    # From here on no slot changes its node; what is released below does not change what was decided above.
    (fix_conditions, When.GOING_ON),
    (release_unused, When.GOING_ON),
    (return_surplus, When.NO_FAULT),  # a node that came back and is not needed any more
    # The steps of a start. A slot takes one per tick.
    (acquire_leases, When.NO_FAULT),
    (start_head, When.LEASED),
    (bring_up, When.LEASED),  # prepare, join
    (reserve_slices, When.LEASED),  # reserve, verify
    (start_gangs, When.LEASED),
    (start_spares, When.LEASED),  # prepare, join, park
    (grow, When.LEASED),  # more slices, once every rank has run for a while beside free nodes
    (tear_down, When.ENDING),
)
"""Every stage of a tick, in order. A stage is called from here and nowhere else."""

_LOOK_AGAIN_S = {
    RunState.RUNNING: STEADY_S,
    RunState.ON_HOLD: STEADY_S,
    RunState.RELEASE_PENDING: RELEASE_PENDING_S,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What to do now, the record to store first, and what to show.

    `wake_at` is when to look again (s).

    `conditions` are those of all slots, as decided on; `doubted` are nodes whose health has to be asked at once. `tail`
    has the last lines of a rank that failed. `ready` says of ranks whose servers are asked whether they are ready.
    """

    actions: tuple[Action, ...]
    record: Record
    wake_at: float
    status_message: str
    state: RunState
    conditions: Mapping[MemberName, Condition]
    doubted: frozenset[NodeName] = frozenset()
    tail: tuple[str, ...] = ()
    ready: Mapping[MemberName, bool] = field(default_factory=dict)


def reconcile(run: Run, seen: Observation, record: Record) -> Decision:
    """Return what to do now: every stage that is due, in order, over one tick."""
    tick = Tick(run, seen, record)
    for stage, when in STAGES:
        if _due(when, tick):
            stage(tick)
    return _decision(tick)


def _due(when: When, tick: Tick) -> bool:
    going_on = tick.record.outcome is None
    match when:
        case When.ALWAYS:
            return True
        case When.GOING_ON:
            return going_on
        case When.NO_FAULT:
            return going_on and tick.record.shared_fault is None
        case When.LEASED:
            return going_on and tick.record.shared_fault is None and tick.leases_complete
        case When.ENDING:
            return not going_on
        case _:
            assert_never(when)


def _decision(tick: Tick) -> Decision:
    outcome, fault = tick.record.outcome, tick.record.shared_fault
    if outcome is not None:
        state, message = ending(tick, outcome)
    else:
        if fault is not None:
            tick.hold_reason = f"{fault.message}. Continue with nvlaunch resume or nvlaunch relocate"
        state = standing(tick)
        message = progress(tick, state)
    tick.wake(tick.seen.at + _LOOK_AGAIN_S.get(state, BUSY_S))
    return Decision(
        actions=tuple(tick.actions.values()),
        record=tick.finished_record(),
        wake_at=tick.wake_at,
        status_message=message,
        state=state,
        conditions=all_conditions(tick),
        doubted=frozenset(tick.doubted),
        tail=tick.tail,
        ready={name: report.ready for name, report in asked_servers(tick) if report.ready is not None},
    )
