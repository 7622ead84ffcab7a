"""Whether moves are worth it without being asked for: what they cost against the wait that they save."""

from dataclasses import dataclass
from enum import Enum

from launcher.core.model.inventory import DefragPolicy, Inventory
from launcher.core.model.task import Task
from launcher.core.planner.defragment import GPU_HOUR_S, MovePlan, NoMovePlan

LONGEST_WAIT_S = 86400.0
"""The longest wait that is counted as saved: what the fleet does in a day from now is not known."""


class Ground(Enum):
    """The kind of reason for moving slices or not."""

    NO_PLAN = "no plan"
    FITS = "fits now"
    QUIET = "quiet hours"
    BUDGET = "budget"
    BENEFIT = "benefit too small"
    WORTH = "worth it"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Whether slices are moved (`ground` is WORTH), and why or why not in words."""

    ground: Ground
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitFigures:
    """What a verdict depends on besides the plan.

    `waited_s` is how long the run has waited, `starts_in_s` when it starts without moves at the latest (None: not
    known). `spent_gpu_hours` is the cost of moves in the last 24 hours, `minute` the minute of the day, local time.
    """

    waited_s: float
    starts_in_s: float | None
    spent_gpu_hours: float
    minute: int


def judge(plan: MovePlan | NoMovePlan, task: Task, fleet: Inventory, policy: DefragPolicy, now: WaitFigures) -> Verdict:
    """Return whether a plan for a waiting task is carried out.

    Where it is not known how long the task would wait, it is expected to wait as long again as it has.
    """
    if isinstance(plan, NoMovePlan):
        return Verdict(ground=Ground.NO_PLAN, reason=plan.reason)
    if not plan.steps:
        return Verdict(ground=Ground.FITS, reason="fits without moves")
    if any(_within(now.minute, *span) for span in policy.quiet_hours):
        return Verdict(ground=Ground.QUIET, reason="no move begins in quiet hours")
    cost, budget = plan.gpu_hours, policy.budget_gpu_hours_per_day
    if now.spent_gpu_hours + cost > budget:
        spent = f"{now.spent_gpu_hours:.1f} of {budget:.1f} GPU-hours a day are spent"
        return Verdict(ground=Ground.BUDGET, reason=f"moves cost {cost:.1f} GPU-hours, and {spent}")
    wait = now.waited_s if now.starts_in_s is None else now.starts_in_s
    saved = min(wait, LONGEST_WAIT_S) * gpus_of(task, fleet) / GPU_HOUR_S
    told = f"moves cost {cost:.1f} GPU-hours and save {saved:.1f} GPU-hours of waiting"
    if saved < policy.min_benefit * cost:
        return Verdict(ground=Ground.BENEFIT, reason=f"{told}, less than {policy.min_benefit:g} times as many")
    return Verdict(ground=Ground.WORTH, reason=told)


def gpus_of(task: Task, fleet: Inventory) -> int:
    """Return the GPUs of the nodes that run ranks of a task; those of the fleet's nodes where the task names none."""
    each = max((node.gpus for node in fleet.nodes), default=0)
    owners = [group for group in task.groups if group.topology.nodes_of is None]
    return sum(group.topology.nodes * (group.gpus or each) for group in owners)


def _within(minute: int, begin: int, end: int) -> bool:
    """Whether a minute of the day is in a span, which may go over midnight."""
    return begin <= minute < end if begin <= end else minute >= begin or minute < end
