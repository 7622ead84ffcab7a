"""A plan of moves as it is stored: its steps, its state, and what it reserves."""

import base64
import secrets
from dataclasses import dataclass
from enum import Enum

from launcher.core.model.move_order import SliceNodes
from launcher.core.model.run import RunId, RunName
from launcher.store.owner import Owner
from launcher.store.user import User


class PlanState(Enum):
    """Whether a plan goes on; KEPT: its moves are done, and the freed room waits for its run."""

    ACTIVE = "active"
    KEPT = "kept"
    DONE = "done"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredStep:
    """Slices of one gang that move together, and the GPU-hours that their restart costs."""

    id: RunId
    run: RunName
    gang: str
    old: tuple[SliceNodes, ...]
    new: tuple[SliceNodes, ...]
    gpu_hours: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredSteps:
    """The steps of a plan, in order."""

    steps: tuple[StoredStep, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan of moves. `beneficiary` names the run that gets the room, or is the plan's own id for nobody.

    `spent` are the GPU-hours of the steps that were begun and did not go back. Times are seconds since the epoch.
    """

    id: str
    fleet: str
    beneficiary: RunName
    user: User
    created: float
    expires: float
    state: PlanState
    message: str
    spent: float
    steps: tuple[StoredStep, ...]
    owner: Owner | None

    def alive(self, now: float) -> bool:
        """Whether a process carries the plan out."""
        living = self.owner is None or self.owner.alive()
        return self.state is PlanState.ACTIVE and self.expires > now and living


@dataclass(frozen=True, slots=True, kw_only=True)
class Reservation:
    """Who a node is reserved for, by which plan."""

    plan: str
    run: RunName


def fresh_plan_id() -> str:
    """Return the id of a new plan: 30 random bits, as those of runs."""
    return f"defrag-{base64.b32encode(secrets.token_bytes(4)).decode('ascii')[:6].lower()}"
