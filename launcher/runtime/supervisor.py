"""The supervisor: a plain Ray driver on the head.

It is the only process of a run that uses Ray's API. Groups and actors are detached and found again by name: this
process keeps nothing, and may be killed at any time.
"""

import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from . import connectivity, ray_api, rpc, shared
from .protocol import TablesReply

PERIOD_S = 0.5
STALE_S = 5.0
CONNECT_S = 60.0
FRESH_S = 10.0
DEMAND_S = 5.0
"""How often Ray is asked what it cannot place (s)."""


class RayTables:
    """Ray's tables, read twice a second by a thread of its own.

    No request waits for Ray.
    """

    def __init__(self) -> None:
        self._dashboard: int | None = None
        self._changed = threading.Condition()
        self._tables: ray_api.Tables = ([], [])
        self._begun = 0.0
        self._pending: list[str] = []
        self._asked = 0.0
        self._hurry = threading.Event()

    def keep(self) -> None:
        """Read for ever.

        When Ray itself ends, so does this process: its agent starts it again.
        """
        while True:
            begun = time.monotonic()
            try:
                tables = ray_api.tables()
                if begun - self._asked >= DEMAND_S:
                    self._pending, self._asked = ray_api.pending_demand(), begun
                    self._dashboard = ray_api.dashboard() if self._dashboard is None else self._dashboard
            except Exception:
                logging.exception("Ray does not answer")
                os._exit(1)
            with self._changed:
                self._tables, self._begun = tables, begun
                self._changed.notify_all()
            self._hurry.wait(PERIOD_S)
            self._hurry.clear()

    def latest(self) -> TablesReply:
        """Return the newest tables.

        They are not `ready` where Ray has not answered for five seconds.
        """
        nodes, groups = self._tables
        ready = time.monotonic() - self._begun < STALE_S
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


class Supervisor:
    """The replies of the supervisor."""

    def __init__(self, tables: RayTables, folder: Path) -> None:
        self._tables = tables
        self._folder = folder
        self._starting = threading.Lock()
        self._documents: dict[str, ray_api.Document] = {}

    def reply(self, question: dict[str, Any]) -> TablesReply:
        """Return the reply to a question: status, verify, reserve, unreserve, drain or start.

        A change of a group is confirmed when the tables show it: the next look must not see the group of before.
        """
        match question["op"]:
            case "status":
                return self._tables.latest()
            case "verify":
                return _of_slice(self._tables.fresh(question["timeout"]), question.get("slice"))
            case "reserve":
                ray_api.reserve(question["slice"], question["bundles"], question["slots"], question["within"])
                return _of_slice(self._tables.fresh(FRESH_S), question["slice"])
            case "unreserve":
                ray_api.unreserve(question["slice"])
                return _of_slice(self._tables.fresh(FRESH_S), question["slice"])
            case "drain":
                raylet = (question["slot"], question["generation"])
                refused = ray_api.drain(*raylet, question["deadline"], question["reason"])
                return {"ok": not refused, "message": refused}
            case "start":
                with self._starting:
                    document = self._document(question["shared"])
                    wrong = ray_api.start(question["ranks"], document, question["timeout"])
                message = "; ".join(reply.get("message", "") for reply in wrong.values())
                faults = {label: reply["fault"] for label, reply in wrong.items() if "fault" in reply}
                return {"ok": not wrong, "message": message, "faults": faults}
            case other:
                return {"ok": False, "message": f"unknown question `{other}`"}

    def _document(self, name: str) -> ray_api.Document:
        """Return a document of shared variables in Ray's object store.

        It is put there once; nodes fetch it from each other.
        """
        if name not in self._documents:
            self._documents[name] = ray_api.share(shared.packed(self._folder, name))
        return self._documents[name]


def _of_slice(tables: TablesReply, key: str | None) -> TablesReply:
    """Return tables with the group of one slice alone: each of thousands of slices is asked for once."""
    if key is None or "groups" not in tables:
        return tables
    return {**tables, "nodes": [], "groups": [row for row in tables["groups"] if row["slice"] == key]}


def main(argv: list[str]) -> int:
    """Connect to Ray and answer until killed: `supervisor SCRATCH HOST:PORT`."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    scratch, address = Path(argv[0]), argv[1]
    host, _, port = address.rpartition(":")
    if not connectivity.opens(host, int(port), CONNECT_S):
        return 1
    ray_api.connect(address, host.strip("[]"))
    tables = RayTables()
    threading.Thread(target=tables.keep, name="tables", daemon=True).start()
    if not tables.fresh(timeout=30).get("ready"):
        return 1
    rpc.serve(scratch / "supervisor.sock", Supervisor(tables, Path(os.environ["NVLAUNCH_FOLDER"])).reply)
    logging.info("connected to %s", address)
    threading.Event().wait()
    return 0
