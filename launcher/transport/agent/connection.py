"""One machine that is looked at each second: a program of ours there, spoken to line by line over a kept connection.

Nothing here waits for a machine. Questions are sent to whoever has none under way; returns come in a thread of the
connection's own; a connection that is mute for too long is given up, and a new one is made in the background. Who has
a question of another kind for an agent sends it over the same connection, and waits by itself.
"""

import contextlib
import itertools
import json
import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from importlib import resources

from launcher.core.model.inventory import Access
from launcher.errors import LaunchError
from launcher.ports import Shell, Talk
from launcher.transport.agent.client import Json, Site

AGENT_S = 2.5
"""Seconds in which an agent answers; the machine says so of one that does not."""

MUTE_S = 4.0
"""Seconds after which a connection on which nothing comes is given up."""

BEGIN_S = 15.0
"""The same for a new connection: an interpreter has to start there, maybe on a busy machine."""

DIAL_S = 15.0
KNOCK_S = 2.0
"""Seconds for a new connection, and for its first packet: a host that is back is knocked at again soon."""

PAUSE_S = 0.5
"""The least time between two attempts to connect (s)."""

KEPT_S = 3.0
"""Seconds for which the last answer still holds."""

Key = tuple[str, str]
"""Run and place of a unit; for a question outside of looks, nothing and a number."""


@dataclass(slots=True)
class Spot:
    """What is known of one unit on a machine. Times are monotonic (s), `since` is the wall clock's."""

    asked: float | None = None
    """When the question under way was asked."""
    answer: Json | None = None
    of: float = 0.0
    """When the last answer was asked for."""
    touched: float = 0.0
    """When the last action on the unit ended: what was asked before says nothing any more."""
    trouble: str = "it has not answered yet"
    since: float | None = None

    def heard(self, answer: Json) -> None:
        """Take in an answer to the question under way."""
        if self.asked is not None:
            self.answer, self.of, self.since = answer, self.asked, None
        self.asked = None

    def failed(self, message: str) -> None:
        """Take in that the question under way has no answer."""
        self.asked, self.trouble = None, message
        self.since = self.since or time.time()


class Changes(threading.Condition):
    """Guards what is known of units. Who follows is told of each unit that has changed, and woken where it matters."""

    def __init__(self) -> None:
        super().__init__()
        self._followers: list[Callable[[Key], bool]] = []

    @contextlib.contextmanager
    def followed_by(self, take: Callable[[Key], bool]) -> Iterator[None]:
        """Tell `take` of each change in this block; it returns whether its waiter has to wake. Called while held."""
        self._followers.append(take)
        try:
            yield
        finally:
            self._followers.remove(take)

    def tell(self, keys: Iterable[Key]) -> None:
        """Take note that these units have changed. Called while held."""
        woken = [take(key) for key in keys for take in self._followers]
        if any(woken):
            self.notify_all()


class Eye:
    """A machine and the units of runs there. `changed` is notified of each answer, and guards what is kept."""

    def __init__(self, shell: Shell, access: Access, python: str, changed: Changes, pool: Executor) -> None:
        self._shell = shell
        self._access = access
        self._argv = (python, "-EsS", "-c", resources.files("launcher.runtime").joinpath("relay.py").read_text())
        self._changed = changed
        self._pool = pool
        self._talk: Talk | None = None
        self._dialling = False
        self._dialled = 0.0
        self._spoke = 0.0
        self._patience = BEGIN_S
        self._closed = False
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[str, Future[Json]] = {}
        self.spots: dict[Key, Spot] = {}

    def ask(self, wanted: Mapping[Key, tuple[Site, Json]]) -> None:
        """Ask each unit that has no question under way; called with `changed` held."""
        now = time.monotonic()
        first = min((spot.asked for spot in self.spots.values() if spot.asked is not None), default=now)
        if self._talk and now - max(self._spoke, first) > self._patience:
            self._patience = math.inf
            self._pool.submit(self._talk.give_up)
        lines: list[bytes] = []
        for key, (site, question) in wanted.items():
            spot = self.spots.setdefault(key, Spot())
            if spot.asked is None and (self._talk or self._may_dial(now)):
                spot.asked = now
                lines.append(line(key, site, question, AGENT_S))
        if not lines:
            return
        if self._talk:
            self._pool.submit(self._send, self._talk, lines)
        else:
            self._dialling, self._dialled = True, now
            self._pool.submit(self._dial, lines)

    def begin(self, site: Site, question: Json, limit: float) -> "Future[Json] | None":
        """Send a question outside of looks, if there is a connection; called with `changed` held. The future answers
        what the machine says within `limit` seconds (`answer` or `words`), ConnectionError where the connection ends.
        """
        if self._talk is None:
            return None
        number = str(next(self._numbers))
        asked: Future[Json] = Future()
        self._waiting[number] = asked
        self._pool.submit(self._send, self._talk, [line(("", number), site, question, limit)])
        return asked

    def _may_dial(self, now: float) -> bool:
        return not self._dialling and not self._closed and now - self._dialled >= PAUSE_S

    def _dial(self, lines: list[bytes]) -> None:
        try:
            talk = self._shell.converse(self._access, self._argv, timeout=DIAL_S, knock=KNOCK_S)
        except LaunchError as error:
            self._lost(error.advice)
            return
        except Exception as error:
            self._lost(f"{type(error).__name__}: {error}")
            raise
        with self._changed:
            self._talk, self._dialling, self._spoke, self._patience = talk, False, time.monotonic(), BEGIN_S
            pending = self._pending()
            for key in pending:
                self.spots[key].asked = self._spoke  # not before now
            self._changed.tell(pending)
        if self._closed:
            talk.close()
        threading.Thread(target=self._hear, args=(talk,), name="hear", daemon=True).start()
        self._send(talk, lines)

    def _send(self, talk: Talk, lines: list[bytes]) -> None:
        """A connection that takes nothing any more ends for its reader too, who says so."""
        with self._sending:
            talk.send(b"".join(lines))

    def _hear(self, talk: Talk) -> None:
        pending = b""
        while part := talk.read():
            *lines, pending = (pending + part).split(b"\n")
            with self._changed:
                self._spoke, self._patience = time.monotonic(), MUTE_S
                self._changed.tell([key for said in lines if (key := self._take(said)) is not None])
        self._lost(talk.last_words())
        talk.close()

    def _take(self, said: bytes) -> Key | None:
        """Take in a line; returns of which unit more is known now."""
        try:
            told = json.loads(said)
            run, place = told["key"]
            asked = None if run else self._waiting.pop(place)
            spot = self.spots[run, place] if run else None
        except (ValueError, KeyError, TypeError):
            return None  # a login script's own words; who waits for an answer hears of its absence
        if asked is not None:
            asked.set_result(told)
        if spot is None:
            return None
        if "answer" in told:
            spot.heard(told["answer"])
        else:
            spot.failed(told.get("message", "it says nothing"))
        return (run, place)

    def _lost(self, message: str) -> None:
        with self._changed:
            self._talk, self._dialling = None, False
            pending = self._pending()
            for key in pending:
                self.spots[key].failed(message)
            self._changed.tell(pending)
            waiting, self._waiting = self._waiting, {}
        for asked in waiting.values():
            asked.set_exception(ConnectionError(message))

    def _pending(self) -> list[Key]:
        return [key for key, spot in self.spots.items() if spot.asked is not None]

    def close(self) -> None:
        """Let go of the connection."""
        self._closed = True
        if self._talk:
            self._talk.close()


def line(key: Key, site: Site, question: Json, limit: float) -> bytes:
    """Return what the program on the machine is sent: a question for the agent of a unit, and its seconds."""
    asked = {
        "key": key,
        "socket": site.layout.socket,
        "package": site.layout.package,
        "root": site.layout.root,
        "question": question,
        "limit": limit,
    }
    return json.dumps(asked).encode() + b"\n"
