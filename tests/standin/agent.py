"""The stand-in of a node agent: it does nothing, and answers as one does that has done everything at once."""

import json
from collections.abc import Callable
from typing import Any

from launcher.runtime.protocol import PROTOCOL
from tests.standin.cluster import StandInCluster

BLOCK = {"slot": 6400, "head": 7700}
HEARD_S = 0.3
"""How long ago each node spoke with the head (s)."""

_OK = b'{"ok": true, "protocol": %d}' % PROTOCOL


class StandInAgent:
    """One unit of a run on a machine. Its status is made anew only after a change."""

    def __init__(self, place: str, cluster: StandInCluster, *, head: bool) -> None:
        self.place = place
        self.serves = False
        self._cluster = cluster
        self._head = head
        self._status: dict[str, Any] | None = None
        self._number = 0
        self._heard = False
        self._clear()

    def _clear(self) -> None:
        self._member: str | None = None
        self._slot = ""
        self._generation = 0
        self._ray = "absent"
        self._setup = "absent"
        self._files: set[str] = set()
        self._ranks: dict[str, dict[str, Any]] = {}
        self._change()

    def _change(self) -> None:
        """Take note that the status is another one; the head's agent has it at once."""
        self._status = None
        if self._heard:
            self._cluster.news.add(self)

    def _speak(self) -> None:
        """Send heartbeats from now on."""
        if not self._heard:
            self._heard = True
            self._change()

    def serve(self) -> bytes:
        """Start it; return what its starter prints."""
        if not self.serves:
            self._clear()
            self.serves = True
            self._cluster.agents[self.place] = self
        return b'{"ok": true, "protocol": %d, "block": %d}' % (PROTOCOL, self._block)

    @property
    def _block(self) -> int:
        return BLOCK["head" if self._head else "slot"]

    def keep_files(self, name: str) -> None:
        """Take note that files have come."""
        self._files.add(name)

    def begin(self, member: str, attempt: int) -> None:
        """Start a rank."""
        self._ranks[member] = {"member": member, "attempt": attempt, "running": True, "quiet": 1.0}
        self._change()

    def lose_raylet(self) -> None:
        """End the raylet, and with it its ranks, as if it was killed."""
        self._end_ranks(137)
        self._ray = "failed"
        self._cluster.lose(self._slot)

    def _end_ranks(self, code: int) -> int:
        running = [rank for rank in self._ranks.values() if rank["running"]]
        for rank in running:
            rank.update(running=False, exit_code=code, ended_ago=0.1, tail=[])
        self._change()
        return len(running)

    def reply(self, asked: dict[str, Any]) -> bytes:
        """Return the reply to a request, as JSON."""
        if not self.serves:
            return (
                b'{"ok": true, "absent": true}' if not self._files else b'{"ok": true, "agent": null, "leftovers": 0}'
            )
        answer = _ANSWERS.get(asked["op"])
        return _OK if answer is None else answer(self, asked)

    def _hello(self, asked: dict[str, Any]) -> bytes:
        reply = {"ok": True, "protocol": PROTOCOL, "block": self._block}
        if "rendezvous" in asked:
            reply["port"] = asked["rendezvous"]["ports"][0]
        return json.dumps(reply).encode()

    def _prepare(self, asked: dict[str, Any]) -> bytes:
        if asked["workdir"] and "workdir" not in self._files:
            return b'{"ok": true, "protocol": %d, "need": "workdir"}' % PROTOCOL
        self._setup = "done"
        self._change()
        return _OK

    def _start_ray(self, asked: dict[str, Any]) -> bytes:
        self._ray, self._generation, self._member = "running", asked["generation"], asked.get("member")
        if self._head:
            self._cluster.forget()
            self._cluster.begun = True
        else:
            self._slot = self._cluster.join(asked["argv"])
            self._speak()
            self._change()
        return _OK

    def _signal(self, asked: dict[str, Any]) -> bytes:
        del asked
        return b'{"ok": true, "protocol": %d, "count": %d}' % (PROTOCOL, self._end_ranks(143))

    def _kill(self, asked: dict[str, Any]) -> bytes:
        self._end_ranks(137)
        if asked["level"] != "rank":
            self._ray = "absent"
            self._cluster.lose(self._slot)
        return _OK

    def _stop(self, asked: dict[str, Any]) -> bytes:
        del asked
        self._cluster.lose(self._slot)
        self._cluster.agents.pop(self.place, None)
        self.serves = self._heard = False
        self._clear()
        self._cluster.board.forget(self.place)
        return _OK

    def _supervisor(self, asked: dict[str, Any]) -> bytes:
        return self._cluster.reply(asked["question"])

    def _say_status(self, asked: dict[str, Any]) -> bytes:
        if self._head:
            return self._head_status()
        if "head" in asked:
            self._speak()
        passing: dict[str, Any] = {
            "reachable": {},
            "head_silence": HEARD_S if self._member else None,
            "head_unheard": None,
        }
        return json.dumps({**self.status(), **passing}).encode()

    def status(self) -> dict[str, Any]:
        """Return what the head's agent is sent, too."""
        if self._status is None:
            self._number += 1
            step = {"generation": self._generation, "message": ""}
            self._status = {
                "ok": True,
                "protocol": PROTOCOL,
                "agent": 4711,
                "block": self._block,
                "member": self._member,
                "ray": {"phase": self._ray, **step, **({"exit_code": 137} if self._ray == "failed" else {})},
                "setup": {"phase": self._setup, "exit_code": 0, "tail": [], **step},
                "ranks": list(self._ranks.values()),
                "mounts": [],
                "followed": None,
                "head_bound": self._member is None,
                "version": (self.place, self._number),
            }
        return self._status

    def _views(self, asked: dict[str, Any]) -> bytes:
        return json.dumps(self._cluster.views(*asked["since"])).encode()

    def _head_status(self) -> bytes:
        ages = json.dumps(dict.fromkeys((place for place in self._cluster.agents if place != self.place), HEARD_S))
        step = {"phase": self._ray, "generation": self._generation, "message": ""}
        status = {"ok": True, "protocol": PROTOCOL, "agent": 4711, "block": self._block, "member": None, "ray": step}
        text = json.dumps({**status, "listening": 600.0}).encode()[:-1]
        tables = self._cluster.tables() if self._cluster.begun else b'{"ok": false}'
        return text + b', "heartbeat_ages": %s, "supervisor": %s}' % (ages.encode(), tables)


_ANSWERS: dict[str, Callable[[StandInAgent, dict[str, Any]], bytes]] = {
    "hello": StandInAgent._hello,
    "prepare": StandInAgent._prepare,
    "ray": StandInAgent._start_ray,
    "signal": StandInAgent._signal,
    "kill": StandInAgent._kill,
    "stop": StandInAgent._stop,
    "status": StandInAgent._say_status,
    "supervisor": StandInAgent._supervisor,
    "views": StandInAgent._views,
}
