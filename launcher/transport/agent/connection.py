"""A kept connection to one machine: `runtime/relay.py`, line by line.

Nothing here waits for a machine. Requests go to agents that have none under way; replies come in a thread of the
connection's own. A connection on which nothing comes for too long is closed, and a new one is made in the background;
so is one on which a line does not end, or too much comes that nobody asked for. Requests other than looks use the same
connection, and their callers wait by themselves.
"""

import itertools
import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import cache
from importlib import resources
from typing import Any

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.core.model.observation import Refusal
from launcher.errors import LaunchError
from launcher.ports import Shell, Talk
from launcher.runtime.protocol_programs import RelayAnswer, RelayQuestion
from launcher.transport.agent import replies
from launcher.transport.agent.client import AgentClient
from launcher.transport.agent.unit_view import Changes, Key, UnitView
from launcher.transport.ssh.operation import HostKeyError, LoginRefusedError, NoJobError

AGENT_S = 2.5
"""Seconds for an agent's reply; of one that gives none the machine says so."""

MUTE_S = 4.0
"""Seconds after which a connection is closed on which nothing comes."""

BEGIN_S = 15.0
"""The same for a new connection: an interpreter has to start there, maybe on a busy machine."""

DIAL_S = 15.0
KNOCK_S = 2.0
"""Seconds for a new connection, and for its first packet: a machine that is back is tried again soon."""

PAUSE_S = 0.5
"""The least time between two attempts to connect (s)."""

_REFUSALS = ((HostKeyError, Refusal.HOST_KEY), (LoginRefusedError, Refusal.LOGIN), (NoJobError, Refusal.NO_JOB))
STRAYS = 1000
"""Lines in a row that answer nothing, after which a connection is closed; a scan for leftovers sends one a second."""


class MachineConnection:
    """A machine and the units of runs there.

    `changes` is told of each reply, and guards what is known.
    """

    def __init__(self, shell: Shell, access: Access, python: str, changes: Changes, pool: Executor) -> None:
        self._shell = shell
        self._access = access
        self._argv = (python, "-EsS", "-c", _relay())
        self._changes = changes
        self._pool = pool
        self._talk: Talk | None = None
        self._dialling = False
        self._dialled = 0.0
        self._spoke = 0.0
        self._patience = BEGIN_S
        self._closed = False
        self._sending = threading.Lock()
        self._numbers = itertools.count()
        self._waiting: dict[str, Future[RelayAnswer]] = {}
        self._longest = replies.LINE
        self.used = 0.0
        self.views: dict[Key, UnitView] = {}

    def look(self, wanted: Mapping[Key, tuple[AgentClient, Mapping[str, Any]]]) -> None:
        """Send the request of each unit that has none under way.

        Called with the lock of `changes` held.
        """
        now = time.monotonic()
        first = min((view.asked for view in self.views.values() if view.asked is not None), default=now)
        if self._talk and now - max(self._spoke, first) > self._patience:
            self._patience = math.inf
            self._pool.submit(self._talk.give_up)
        lines: list[bytes] = []
        for key, (client, request) in wanted.items():
            view = self.views.setdefault(key, UnitView())
            if client.unit is Unit.HEAD:
                self._longest = replies.LARGEST
            if view.asked is None and (self._talk or self._may_dial(now)):
                view.asked = now
                lines.append(line(key, client, request, AGENT_S))
        if not lines:
            return
        self.used = now
        if self._talk:
            self._pool.submit(self._send, self._talk, lines)
        else:
            self._dialling, self._dialled = True, now
            self._pool.submit(self._dial, lines)

    def begin(self, client: AgentClient, request: Mapping[str, Any], limit: float) -> "Future[RelayAnswer] | None":
        """Send a request other than a look; None without a connection.

        Called with the lock of `changes` held. The future returns what the machine says within `limit` seconds;
        ConnectionError where the connection ends.
        """
        if self._talk is None:
            return None
        number, self.used = str(next(self._numbers)), time.monotonic()
        asked: Future[RelayAnswer] = Future()
        self._waiting[number] = asked
        self._pool.submit(self._send, self._talk, [line(("", number), client, request, limit)])
        return asked

    @property
    def is_open(self) -> bool:
        """Whether there is a connection."""
        return self._talk is not None

    @property
    def is_idle(self) -> bool:
        """Whether there is one on which no request is under way. Called with the lock of `changes` held."""
        return self._talk is not None and not self._waiting and not self._pending()

    def hang_up(self) -> None:
        """Close a connection that is idle; the next request makes a new one."""
        with self._changes:
            talk = self._talk if self.is_idle else None
            self._talk = None if talk else self._talk
        if talk:
            talk.close()

    def _may_dial(self, now: float) -> bool:
        return not self._dialling and not self._closed and now - self._dialled >= PAUSE_S

    def _note_begun(self, at: float) -> None:
        for key in self._pending():
            self.views[key].begin(at)

    def _dial(self, lines: list[bytes]) -> None:
        with self._changes:
            self._note_begun(time.monotonic())
        try:
            talk = self._shell.converse(self._access, self._argv, timeout=DIAL_S, knock=KNOCK_S)
        except LaunchError as error:
            self._lost(error.advice, next((found for kind, found in _REFUSALS if isinstance(error, kind)), None))
            return
        except Exception as error:
            self._lost(f"{type(error).__name__}: {error}")
            raise
        with self._changes:
            self._talk, self._dialling, self._spoke, self._patience = talk, False, time.monotonic(), BEGIN_S
            pending = self._pending()
            for key in pending:
                self.views[key].asked = self._spoke  # not before now
            self._changes.tell(pending)
        if self._closed:
            talk.close()
        threading.Thread(target=self._listen, args=(talk,), name="listen", daemon=True).start()
        self._send(talk, lines)

    def _send(self, talk: Talk, lines: list[bytes]) -> None:
        """Write lines.

        A connection that takes none any more ends for its reader too, which reports it.
        """
        with self._changes:
            self._note_begun(time.monotonic())
        with self._sending:
            talk.send(b"".join(lines))

    def _listen(self, talk: Talk) -> None:
        wrong = "the reply of the machine could not be read"
        try:
            wrong = self._hear(talk)
        finally:  # whatever came: a connection without a reader must not stay
            if wrong:
                talk.give_up()
            self._lost(wrong or talk.last_words(), of=talk)
            talk.close()

    def _hear(self, talk: Talk) -> str:
        """Take in all that comes; return why it is not listened to any longer, empty where it has ended."""
        unread, strays, wrong = bytearray(), 0, ""
        while not wrong and (part := talk.read()):
            unread += part
            *lines, unread = unread.split(b"\n") if b"\n" in part else [unread]
            answers = [replies.relay_answer(bytes(text)) for text in lines]
            with self._changes:
                self._spoke, self._patience = time.monotonic(), MUTE_S
                taken = [self._take(answer) for answer in answers]
                self._changes.tell([key for keys in taken for key in keys or ()])
            for keys in taken:
                strays = strays + 1 if keys is None else 0
            if strays > STRAYS:
                wrong = "the machine sends what nobody asked for"
            elif len(unread) > self._longest:
                wrong = f"the machine sends more than {self._longest >> 20} MiB for one reply"
        return wrong

    def _take(self, found: RelayAnswer | str | None) -> Sequence[Key] | None:
        """Take in an answer; return the units of which more is known now. None where nobody waits for it.

        An answer that cannot be read may be that to any request under way: all of them have an odd one.
        """
        if found is None:
            return None
        if isinstance(found, str):
            odd, waiting, self._waiting = self._pending(), self._waiting, {}
            for key in odd:
                self.views[key].replied(found)
            for number, caller in waiting.items():
                caller.set_result({"key": ("", number), "message": f"odd reply: {found}"})
            return odd
        run, place = key = found["key"]
        if not run:
            asked = self._waiting.pop(place, None)
            if asked is not None:
                asked.set_result(found)
            return None if asked is None else ()
        view = self.views.get(key)
        if view is None or view.asked is None:
            return None
        if "answer" in found:
            view.replied(found["answer"])
        else:
            view.fail(found.get("message", "no reply"))
        return (key,)

    def _lost(self, message: str, refusal: Refusal | None = None, *, of: Talk | None = None) -> None:
        message = message[: replies.MAX_TEXT]
        with self._changes:
            if of is not self._talk:  # it was idle and was closed; there may be another one
                return
            self._talk, self._dialling = None, False
            pending = self._pending()
            for key in pending:
                self.views[key].fail(message, refusal)
            self._changes.tell(pending)
            waiting, self._waiting = self._waiting, {}
        for asked in waiting.values():
            asked.set_exception(ConnectionError(message))

    def _pending(self) -> list[Key]:
        return [key for key, view in self.views.items() if view.asked is not None]

    def close(self) -> None:
        """Close the connection."""
        self._closed = True
        if self._talk:
            self._talk.close()


@cache
def _relay() -> str:
    """Return the text of the relay, which thousands of connections share."""
    return resources.files("launcher.runtime").joinpath("relay.py").read_text()


def line(key: Key, client: AgentClient, request: Mapping[str, Any], limit: float) -> bytes:
    """Return the line for the relay on a machine: a request for the agent of a unit."""
    asked: RelayQuestion = {
        "key": key,
        "socket": client.layout.socket,
        "package": client.layout.package,
        "root": client.layout.root,
        "question": dict(request),
        "limit": limit,
    }
    return json.dumps(asked).encode() + b"\n"
