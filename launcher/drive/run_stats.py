"""What a run's journal adds up to: recoveries and how long they took, and for how much of its time its ranks ran.

Counted from the journal alone, so that a controller that is started again goes on with the same figures.
"""

from dataclasses import dataclass, field

from launcher.core.model.actions import Why
from launcher.core.model.run import RunState
from launcher.store.journal import Event, EventKind

RECOVERIES = (Why.RESTART, Why.REJOIN, Why.REPLACE, Why.MISPLACED, Why.RELOCATE, Why.DRAIN, Why.HEAD)
"""The reasons that are a recovery; the others belong to a start or an end."""

_HURT = (RunState.STARTING.value, RunState.RECOVERING.value, RunState.ON_HOLD.value)

_FINAL = [state.value for state in RunState if state.final]
_WHYS = {why.value for why in Why}
"""Reasons of another version are none that is counted here."""

_ASIDE = ("release", "add_spare", "relocate")
"""What is also done while every rank runs, and lets them: alone it is no recovery."""

_WORST = {Why.RELOCATE: 6, Why.HEAD: 5, Why.REPLACE: 4, Why.DRAIN: 3, Why.MISPLACED: 2, Why.REJOIN: 1, Why.RESTART: 0}
"""Which of several reasons a recovery is named by: the one that needs most."""


@dataclass(slots=True, kw_only=True)
class Tally:
    """The sums of one run, as far as its journal was read. Times are seconds.

    `attempts` has how often a gang was started again, `joins` how often a raylet was, both by reason; `recoveries` how
    long each recovery took until every rank ran again; `spent` how long the run was in each state. A recovery may begin
    as one thing and end as another: it is named by what needed most.
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
    begun: set[str] = field(default_factory=set)
    nodes: set[str] = field(default_factory=set)

    def take(self, event: Event) -> None:
        """Add the next entry of the journal."""
        self.seen = event.seq
        if event.kind is EventKind.LAUNCHED:
            self.since = event.at
        elif event.kind in (EventKind.STATUS, EventKind.ENDED):
            self._stands(event)
        elif event.kind is EventKind.INTENT and event.reason in _WHYS:
            self._acts(event, Why(event.reason))

    def spent_by(self, now: float) -> dict[str, float]:
        """Return how long the run was in each state until now."""
        spent = dict(self.spent)
        if self.since is not None and self.state not in _FINAL:
            spent[self.state] = spent.get(self.state, 0.0) + max(0.0, now - self.since)
        return spent

    def goodput(self, now: float) -> float:
        """Return for how much of its time, from 0 to 1, the run had its ranks running."""
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

    def _acts(self, event: Event, why: Why) -> None:
        kind, _, subject = event.subject.partition(":")
        if kind == "join":
            why = self._joins(subject, why)
        if why not in RECOVERIES or (self.hurt_at is None and kind in _ASIDE):
            return
        self.hurt_at = self.hurt_at or event.at
        if self.hurt_by is None or _WORST[why] > _WORST[self.hurt_by]:
            self.hurt_by = why
        counts = {"start": self.attempts, "join": self.joins}.get(kind)
        if counts is not None and event.subject not in self.begun:  # asked for again, it is the same one
            self.begun.add(event.subject)
            named = self.hurt_by if kind == "start" else why
            counts[named] = counts.get(named, 0) + 1

    def _joins(self, subject: str, why: Why) -> Why:
        """Return why a raylet is started: on a node that the run has not used yet, a slot was given to another."""
        node, _, generation = subject.rpartition("#")
        known = node in self.nodes
        self.nodes.add(node)
        return Why.REPLACE if why in (Why.REJOIN, Why.RESTART) and not known and generation != "0" else why
