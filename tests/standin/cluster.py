"""What the stand-in of a head knows: raylets that have joined, placement groups, and whose heartbeats come."""

import json
from typing import Any

from launcher.runtime.deadline import now
from launcher.runtime.protocol import PROTOCOL, StatusReply
from launcher.runtime.protocol_views import packed
from launcher.runtime.status_board import StatusBoard
from launcher.setup import ray


class ConfirmedBoard(StatusBoard):
    """The statuses of nodes that have all just sent a heartbeat."""

    def confirm_all(self) -> None:
        """Confirm each status now."""
        at = now()
        with self._turn:
            self._rows = {name: row._replace(confirmed=at) for name, row in self._rows.items()}


class StandInCluster:
    """The Ray of one run, as its supervisor tells of it. Texts are made once for each change."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.groups: dict[str, tuple[str, ...]] = {}
        self.agents: dict[str, Any] = {}
        self.news: set[Any] = set()
        self.board = ConfirmedBoard()
        self.begun = False
        self._tables: bytes | None = None

    def changed(self) -> None:
        """Forget the text of the tables."""
        self._tables = None

    def join(self, argv: list[str]) -> str:
        """Take in a raylet by the arguments of its start; return its slot."""
        given = next(word for word in argv if word.startswith("--labels=")).removeprefix("--labels=")
        labels = dict(pair.split("=", 1) for pair in given.split(","))
        slot = labels[ray.SLOT]
        generation, domain = int(labels[ray.GENERATION]), labels.get(ray.DOMAIN)
        self.rows[slot] = {"slot": slot, "generation": generation, "domain": domain, "alive": True}
        self.changed()
        return slot

    def lose(self, slot: str) -> None:
        """Take a raylet for dead."""
        if slot in self.rows:
            self.rows[slot]["alive"] = False
            self.changed()

    def forget(self) -> None:
        """Begin anew: a head without tables."""
        self.rows.clear()
        self.groups.clear()
        self.changed()

    def views(self, epoch: str, number: int) -> StatusReply:
        """Return what nodes have told the head's agent since a number: all of them send heartbeats."""
        for agent in self.news:
            self.board.put(agent.place, b"state 1 1 " + packed(agent.status()).encode(), now())
        self.news.clear()
        self.board.confirm_all()
        return self.board.reply((epoch, number))

    def tables(self) -> bytes:
        """Return the reply with all tables, as JSON without its closing brace."""
        if self._tables is None:
            groups = [self._group(key, slots) for key, slots in self.groups.items()]
            reply = {"ok": True, "ready": True, "nodes": list(self.rows.values()), "groups": groups, "pending": []}
            self._tables = json.dumps(reply).encode()
        return self._tables

    def _group(self, key: str, slots: tuple[str, ...]) -> dict[str, Any]:
        bundles, whole = [], True
        for index, slot in enumerate(slots):
            row = self.rows.get(slot)
            if row is not None and row["alive"]:
                at = {"slot": slot, "domain": row["domain"], "generation": row["generation"]}
            else:
                whole, at = False, {"slot": None, "domain": None, "generation": None}
            bundles.append({"index": index, **at})
        state = "CREATED" if whole else "RESCHEDULING"
        return {"slice": key, "state": state, "hint": "", "bundles": bundles}

    def reply(self, question: dict[str, Any]) -> bytes:
        """Return the reply of the supervisor."""
        match question["op"]:
            case "status":
                return self.tables()
            case "verify":
                return self._of_slice(question["slice"])
            case "reserve":
                self.groups[question["slice"]] = tuple(question["slots"])
                self.changed()
            case "unreserve":
                self.groups.pop(question["slice"], None)
                self.changed()
            case "start":
                return self._start(question["ranks"])
            case _:
                pass
        return b'{"ok": true, "protocol": %d}' % PROTOCOL

    def _of_slice(self, key: str) -> bytes:
        groups = [self._group(key, self.groups[key])] if key in self.groups else []
        return json.dumps({"ok": True, "ready": True, "nodes": [], "groups": groups, "pending": []}).encode()

    def _start(self, ranks: list[dict[str, Any]]) -> bytes:
        for rank in ranks:
            place = rank["mark"].split(":")[1]
            self.agents[place].begin(rank["spec"]["member"], rank["spec"]["attempt"])
        return b'{"ok": true, "message": "", "faults": {}}'
