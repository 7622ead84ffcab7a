"""The supervisor: a plain Ray driver on the head.

It is the only process of a run that uses Ray's API. Groups and actors are detached and found again by name: this
process keeps nothing, and may be killed at any time.
"""

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Any

from . import connectivity, ray_api, rpc, shared
from .protocol import TablesReply
from .ray_tables import RayTables

CONNECT_S = 60.0
GROUP_S = 10.0
"""How long a group that was changed is waited for (s)."""


class Supervisor:
    """The replies of the supervisor."""

    def __init__(self, tables: RayTables, folder: Path) -> None:
        self._tables = tables
        self._folder = folder
        self._starting = threading.Lock()
        self._documents: dict[str, ray_api.Document] = {}

    def reply(self, question: dict[str, Any]) -> TablesReply:
        """Return the reply to a question: status, verify, reserve, unreserve, drain or start.

        A change of a group is confirmed when the tables show it: the next look must not see the group of before. Groups
        are asked for one by one: of hundreds that are reserved at once none waits for a reading of all.
        """
        match question["op"]:
            case "status":
                return self._tables.latest()
            case "verify":
                key, timeout = question.get("slice"), question["timeout"]
                return self._tables.fresh(timeout) if key is None else self._tables.group(key, timeout)
            case "reserve":
                # Without bundles each takes all of its node: so a spare is held.
                bundles = question["bundles"] or self._tables.whole(question["slots"], GROUP_S)
                ray_api.reserve(question["slice"], bundles, question["slots"], question["within"])
                return self._tables.group(question["slice"], GROUP_S)
            case "unreserve":
                ray_api.unreserve(question["slice"])
                return self._tables.group(question["slice"], GROUP_S)
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


def main(argv: list[str]) -> int:
    """Connect to Ray and answer until killed: `supervisor SCRATCH HOST:PORT`."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO, stream=sys.stderr)
    scratch, address = Path(argv[0]), argv[1]
    host, _, port = address.rpartition(":")
    if not connectivity.opens(host, int(port), CONNECT_S):
        return 1
    ray_api.connect(address, host.strip("[]"))
    tables = RayTables(ray_api)
    threading.Thread(target=tables.keep, name="tables", daemon=True).start()
    if not tables.fresh(timeout=30).get("ready"):
        return 1
    rpc.serve(scratch / "supervisor.sock", Supervisor(tables, Path(os.environ["NVLAUNCH_FOLDER"])).reply)
    logging.info("connected to %s", address)
    threading.Event().wait()
    return 0
