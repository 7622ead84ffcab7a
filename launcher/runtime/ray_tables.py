"""Ray's tables of nodes and placement groups, as the supervisor keeps them.

To read them whole takes GCS and this process longer the larger the cluster is, so that may take a share of the time
only. In between Ray is asked five times a second for what costs little: whether all raylets still live. What a request
changed or wants to know is one group, and is asked for alone.
"""

import logging
import os
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from .protocol import TablesReply
from .protocol_ray import GroupStatus, RayNodeStatus

Labels = dict[str, str]

LOOK_S = 0.2
"""Seconds between two questions whether all raylets live."""
READ_S = 0.5
"""The fewest seconds between two readings of all tables."""
HASTE_S, HASTY_S = 10.0, 0.1
"""For how long after a change both are asked oftener, and the seconds between two of either: a bundle that moves to a
spare is there after a tenth of a second."""
STALE_S = 5.0
DEMAND_S = 5.0
"""How often Ray is asked what it cannot place (s), at most."""
SETTLE_S = 120.0
"""How long after a change others are expected (s): another raylet, or another place of a group."""
BUSY, CALM = 3.0, 19.0
"""How much longer than a reading of all took nothing is read: while changes are expected, and else."""

FEW = 16
"""The most groups that are asked for one by one in each look."""

_SETTLED = ("CREATED", "REMOVED")


class ClusterTables(NamedTuple):
    """Nodes that have our labels, and placement groups by name.

    `labels` are those of all nodes by id, `alive` our nodes that live, `whole` all CPUs and GPUs of those, by slot.
    """

    nodes: list[RayNodeStatus]
    groups: dict[str, GroupStatus]
    labels: dict[str, Labels]
    alive: dict[object, RayNodeStatus]
    whole: dict[str, dict[str, float]]


class RayAnswers(Protocol):
    """What is asked of Ray: `ray_api`."""

    def tables(self) -> ClusterTables:
        """Return all nodes and groups."""

    def dead(self, raylets: Sequence[object]) -> list[object]:
        """Return those of these raylets that Ray does not hold for alive."""

    def group(self, key: str, labels: dict[str, Labels]) -> tuple[GroupStatus | None, bool]:
        """Return a placement group, and whether a bundle of it is on a node without known labels."""

    def pending_demand(self) -> list[str]:
        """Return what Ray cannot place."""

    def dashboard(self) -> int | None:
        """Return the port of the dashboard; None until it is known."""


class RayTables:
    """Ray's tables, kept by a thread of its own.

    No request for the newest tables waits for Ray.
    """

    def __init__(self, ray: RayAnswers) -> None:
        self._ray = ray
        self._changed = threading.Condition()
        self._tables = ClusterTables([], {}, {}, {}, {})
        self._answered = 0.0
        self._begun = 0.0
        self._due = 0.0
        self._takes = 0.0
        self._lost: dict[str, float] = {}
        self._changed_at = -SETTLE_S
        self._touched: dict[str, float] = {}
        self._dashboard: int | None = None
        self._pending: list[str] = []
        self._asks = 0.0
        self._hurry = threading.Event()

    def keep(self) -> None:
        """Read for ever.

        When Ray itself ends, so does this process: its agent starts it again.
        """
        while True:
            try:
                self.look()
            except Exception:
                logging.exception("Ray does not answer")
                os._exit(1)
            self._hurry.wait(self._pause(LOOK_S))

    def _pause(self, usual: float) -> float:
        """Return for how long to ask nothing (s)."""
        return HASTY_S if time.monotonic() < self._changed_at + HASTE_S else usual

    def look(self) -> None:
        """Read the tables where they are wanted or due, else ask which raylets have died; ask for groups that wait."""
        begun = time.monotonic()
        if self._hurry.is_set() or begun >= self._due:
            self._hurry.clear()
            self._read(time.monotonic())
        elif dead := self._ray.dead(list(self._tables.alive)):
            self._note_dead(dead)
        for key in self._waiting(begun):
            if self._ask(key):
                self._read(time.monotonic())
                break
        if begun >= self._asks:
            asked = time.monotonic()
            self._pending = self._ray.pending_demand()
            ended = time.monotonic()
            self._asks = ended + max(DEMAND_S, CALM * (ended - asked))
            self._dashboard = self._ray.dashboard() if self._dashboard is None else self._dashboard
        self._answered = begun

    def _note_dead(self, dead: Sequence[object]) -> None:
        """Take in that raylets have died, and watch the groups that had a bundle there."""
        with self._changed:
            rows = [self._tables.alive.pop(one) for one in dead]
            for row in rows:
                row["alive"] = False
                self._tables.whole.pop(row["slot"], None)
            gone = {(row["slot"], row["generation"]) for row in rows}
            self._changed_at = time.monotonic()
            self._due = min(self._due, self._changed_at + BUSY * self._takes)
            for key, group in self._tables.groups.items():
                if any((bundle["slot"], bundle["generation"]) in gone for bundle in group["bundles"]):
                    self._lost[key] = self._changed_at + HASTE_S

    def _waiting(self, now: float) -> list[str]:
        """Return groups that Ray has just been given to place, or to place anew.

        Where they are many, or wait for long, the next reading of all tables tells.
        """
        with self._changed:
            self._lost = {key: until for key, until in self._lost.items() if until > now}
            groups = self._tables.groups
            found = [key for key in groups if key in self._lost or groups[key]["state"] not in _SETTLED]
        return found if len(found) <= FEW and now < self._changed_at + HASTE_S else []

    def _read(self, begun: float) -> None:
        tables = self._ray.tables()
        ended = time.monotonic()
        with self._changed:
            before = self._tables
            for key, at in list(self._touched.items()):
                if at < begun:
                    del self._touched[key]
                else:  # read anew since: what this reading says may be older
                    _put(tables.groups, key, before.groups.get(key))
            if (tables.nodes, tables.groups) != (before.nodes, before.groups):
                self._changed_at = ended
            self._tables, self._begun, self._answered = tables, begun, ended
            settled = all(group["state"] in _SETTLED for group in tables.groups.values())
            wait = CALM if settled and ended >= self._changed_at + SETTLE_S else BUSY
            self._takes = ended - begun
            self._due = ended + max(self._pause(READ_S), wait * self._takes)
            self._changed.notify_all()

    def latest(self) -> TablesReply:
        """Return the newest tables.

        They are not `ready` where Ray has not answered for five seconds.
        """
        with self._changed:
            nodes, groups = self._tables.nodes, list(self._tables.groups.values())
            ready = time.monotonic() - self._answered < STALE_S
        found: TablesReply = {"ok": True, "ready": ready, "nodes": nodes, "groups": groups, "pending": self._pending}
        return found if self._dashboard is None else {**found, "dashboard": self._dashboard}

    def fresh(self, timeout: float) -> TablesReply:
        """Return tables read after this call; not `ok` where Ray does not answer in time."""
        asked = time.monotonic()
        self._hurry.set()
        with self._changed:
            if not self._changed.wait_for(lambda: self._begun >= asked, timeout):
                return {"ok": False, "message": "Ray does not answer"}
        return self.latest()

    def group(self, key: str, timeout: float) -> TablesReply:
        """Return the placement group of a slice alone, read after this call; none where Ray has none.

        The next `latest` shows it too.
        """
        self._changed_at = time.monotonic()
        if self._ask(key) and not self.fresh(timeout)["ok"]:
            return {"ok": False, "message": "Ray does not answer"}
        with self._changed:
            found = self._tables.groups.get(key)
        return {"ok": True, "groups": [] if found is None else [found]}

    def whole(self, slots: Sequence[str], timeout: float) -> list[dict[str, float]]:
        """Return all CPUs and GPUs of the nodes that are labelled with slots; ValueError where Ray has no such node."""
        if not self._tables.whole.keys() >= set(slots):
            self.fresh(timeout)
        known = self._tables.whole
        if missing := [slot for slot in slots if slot not in known]:
            raise ValueError(f"Ray has no raylet of `{missing[0]}`")
        return [known[slot] for slot in slots]

    def _ask(self, key: str) -> bool:
        """Ask for a group; return whether a bundle is on a raylet that has joined since all tables were read."""
        found, unknown = self._ray.group(key, self._tables.labels)
        with self._changed:
            now = time.monotonic()
            if found != self._tables.groups.get(key):
                self._changed_at = now
            self._touched[key] = now
            _put(self._tables.groups, key, found)
        return unknown


def _put(groups: dict[str, GroupStatus], key: str, group: GroupStatus | None) -> None:
    if group is None:
        groups.pop(key, None)
    else:
        groups[key] = group
