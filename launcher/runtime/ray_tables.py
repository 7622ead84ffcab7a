"""Ray's tables of nodes and placement groups, as the supervisor keeps them.

To read them whole takes GCS and this process longer the larger the cluster is, so that may take a share of the time
only. In between Ray is asked twice a second for what costs little: whether all raylets still live. What a request
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

PERIOD_S = 0.5
"""Seconds between two questions to Ray."""
STALE_S = 5.0
DEMAND_S = 5.0
"""How often Ray is asked what it cannot place (s)."""
SETTLE_S = 120.0
"""How long after a change others are expected (s): another raylet, or another place of a group."""
BUSY, CALM = 3.0, 19.0
"""How much longer than a reading of all took nothing is read: while changes are expected, and else."""

_SETTLED = ("CREATED", "REMOVED")


class Tables(NamedTuple):
    """Nodes that have our labels, and placement groups by name; labels by the id of a node, and the raylets alive."""

    nodes: list[RayNodeStatus]
    groups: dict[str, GroupStatus]
    labels: dict[str, Labels]
    alive: Sequence[object]


class RayAnswers(Protocol):
    """What is asked of Ray: `ray_api`."""

    def tables(self) -> Tables:
        """Return all nodes and groups."""

    def all_alive(self, raylets: Sequence[object]) -> bool:
        """Whether Ray holds all of these raylets for alive."""

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
        self._tables = Tables([], {}, {}, [])
        self._answered = 0.0
        self._begun = 0.0
        self._due = 0.0
        self._settles = 0.0
        self._touched: dict[str, float] = {}
        self._dashboard: int | None = None
        self._pending: list[str] = []
        self._asked = 0.0
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
            self._hurry.wait(PERIOD_S)

    def look(self) -> None:
        """Ask whether all raylets live; read the tables where one does not, where they are wanted, or due."""
        begun = time.monotonic()
        if self._hurry.is_set() or begun >= self._due or not self._ray.all_alive(self._tables.alive):
            self._hurry.clear()
            self._read(time.monotonic())
        if begun - self._asked >= DEMAND_S:
            self._pending, self._asked = self._ray.pending_demand(), begun
            self._dashboard = self._ray.dashboard() if self._dashboard is None else self._dashboard
        self._answered = begun

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
                self._settles = ended + SETTLE_S
            self._tables, self._begun, self._answered = tables, begun, ended
            settled = all(group["state"] in _SETTLED for group in tables.groups.values())
            wait = CALM if settled and ended >= self._settles else BUSY
            self._due = ended + wait * (ended - begun)
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
        found, unknown = self._ray.group(key, self._tables.labels)
        if unknown and not self.fresh(timeout)["ok"]:  # on a raylet that has joined since
            return {"ok": False, "message": "Ray does not answer"}
        if unknown:
            found, _ = self._ray.group(key, self._tables.labels)
        with self._changed:
            self._touched[key] = time.monotonic()
            self._settles = self._touched[key] + SETTLE_S
            _put(self._tables.groups, key, found)
        return {"ok": True, "groups": [] if found is None else [found]}


def _put(groups: dict[str, GroupStatus], key: str, group: GroupStatus | None) -> None:
    if group is None:
        groups.pop(key, None)
    else:
        groups[key] = group
