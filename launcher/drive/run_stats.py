"""Statistics of a run: its recoveries, how long they took, and its goodput.

Computed from the journal alone, so that a new controller continues with the same numbers.
"""

from dataclasses import dataclass, field

from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunState
from launcher.store.journal import Event, EventKind

RECOVERIES = (Why.RESTART, Why.REJOIN, Why.REPLACE, Why.MISPLACED, Why.RELOCATE, Why.DRAIN, Why.HEAD)
"""The reasons that are a recovery; the others are part of a start or an end."""

_HURT = (RunState.STARTING.value, RunState.RECOVERING.value, RunState.ON_HOLD.value)

_FINAL = [state.value for state in RunState if state.final]
_WHYS = {why.value for why in Why}
"""Known reasons; those of another version are not counted."""

_ASIDE = ("release", "add_spare", "return_spare", "relocate", "move")
"""Actions that do not disturb running ranks: alone they are no recovery."""

_WORST = {Why.RELOCATE: 6, Why.HEAD: 5, Why.REPLACE: 4, Why.DRAIN: 3, Why.MISPLACED: 2, Why.REJOIN: 1, Why.RESTART: 0}
"""The cost of each reason: a recovery with several is named after the costliest."""


@dataclass(slots=True, kw_only=True)
class RunStats:
    """The statistics of one run, as far as its journal was read. Times are seconds.

    `attempts` counts the restarts of gangs and `joins` those of raylets, both by reason; `recoveries` has the duration
    of each recovery, until all ranks run again; `spent` the time in each state.
    """

    seen: int = 0
    state: str = RunState.STARTING.value
    since: float | None = None
    attempts: dict[Why, int] = field(default_factory=dict)
    joins: dict[Why, int] = field(default_factory=dict)
    recoveries: list[tuple[Why, float]] = field(default_factory=list)
    spent: dict[str, float] = field(default_factory=dict)
    hurt_at: float | None = None
    hurt_by: Why | None = None
    begun: set[ActionKey] = field(default_factory=set)
    nodes: set[NodeName] = field(default_factory=set)

    def add(self, event: Event) -> None:
        """Add the next entry of the journal."""
        self.seen = event.seq
        if event.kind is EventKind.LAUNCHED:
            self.since = event.at
        elif event.kind in (EventKind.STATUS, EventKind.ENDED):
            self._stands(event)
        elif event.kind is EventKind.INTENT and event.reason in _WHYS and (key := event.action) is not None:
            self._acts(event.at, key, Why(event.reason))

    def spent_by(self, now: float) -> dict[str, float]:
        """Return the time in each state, the current one included (s)."""
        spent = dict(self.spent)
        if self.since is not None and self.state not in _FINAL:
            spent[self.state] = spent.get(self.state, 0.0) + max(0.0, now - self.since)
        return spent

    def goodput(self, now: float) -> float:
        """Return the share of its time, from 0 to 1, in which the run was running."""
        spent = self.spent_by(now)
        whole = sum(spent.values())
        return spent.get(RunState.RUNNING.value, 0.0) / whole if whole else 0.0

    def _stands(self, event: Event) -> None:
        if self.since is not None:
            self.spent[self.state] = self.spent.get(self.state, 0.0) + max(0.0, event.at - self.since)
        before, self.state, self.since = self.state, event.subject, event.at
        running = RunState.RUNNING.value
        if before == running and self.state in _HURT:
            self.hurt_at = self.hurt_at or event.at
        if self.state == running and self.hurt_at is not None:
            if self.hurt_by is not None:
                self.recoveries.append((self.hurt_by, event.at - self.hurt_at))
            self.hurt_at = self.hurt_by = None

    def _acts(self, at: float, key: ActionKey, why: Why) -> None:
        if key.kind == "join":
            why = self._joins(key, why)
        if why not in RECOVERIES or (self.hurt_at is None and key.kind in _ASIDE):
            return
        self.hurt_at = self.hurt_at or at
        if self.hurt_by is None or _WORST[why] > _WORST[self.hurt_by]:
            self.hurt_by = why
        counts = {"start": self.attempts, "join": self.joins}.get(key.kind)
        if counts is not None and key not in self.begun:  # the same action, decided again
            self.begun.add(key)
            named = self.hurt_by if key.kind == "start" else why
            counts[named] = counts.get(named, 0) + 1

    def _joins(self, key: ActionKey, why: Why) -> Why:
        """Return why a raylet is started.

        On a node that is new to the run it replaces another node.
        """
        known = key.node in self.nodes
        if key.node is not None:
            self.nodes.add(key.node)
        return Why.REPLACE if why in (Why.REJOIN, Why.RESTART) and not known and key.generation else why
