"""Heartbeats of a node to its run's head, and the node's self-stop.

Twice a second the agent of a node sends a heartbeat to the agent of the head and reads a reply, `ok` or `stop`; both
prove who they are (`handshake.py`). A reply counts as a sign of life, and so does a connection that is refused, closed
or merely accepted, or a reply without proof: a head process that is down while its machine answers stops no node. Only
a proven `stop` stops one. A sign counts from the moment before it was asked for. After `self_stop` seconds without one
the node kills its own ranks and Ray: from then on others may count it as lost. The status of the node goes the same way
(`own_status.py`), after a heartbeat that was answered: it counts for nothing.

Why that is safe. Let s be when the last heartbeat that counted was sent, and t when the head's agent last received one
from this node. A reply follows its heartbeat, so t >= s; the exception is a connection that was accepted and never
read: the head's agent counts it when it reads it, and its ages stand still until it has read everything that has come
(see `heartbeat_server.py`). Nothing is started on a node before the head's agent has proven that it heard it.

The node stops at s + self_stop; the head's side counts it as lost at t + self_stop + margin. The margin is for killing.
In the other direction the head can receive a heartbeat whose reply is lost, but only one, since TCP opens no further
connection whose replies are lost; so t <= s + PERIOD_S + REPLY_S. A head that is cut off stops `self_stop` after that,
and the ranks of its own node one period later: within the margin for heads, which is larger. The same holds for s as
the last heartbeat that something on the head's machine may have taken, since a connection that is refused carries none:
so a machine that refuses most nodes (it was installed anew, or its head's agent is gone) runs nothing of the run
either.

On that machine the head's agent may have ended before it could stop the ranks beside it, and to them a refusal would be
a sign of life. So it publishes when it would be cut off if it heard nothing more (`deadline.py`). Where it does not
answer, the agent of the slot beside it stops the node at that time, as a head that lives would have done.

Time is CLOCK_BOOTTIME, which includes suspension. Each wait is bounded by the time that is left, so that no slow
connection delays the stop. A stopped agent can stop nothing: so it publishes the deadline for its ranks, and each
rank's parent checks that too (`rank.py`). For a machine that freezes as a whole and then continues, only a power switch
is certain (`fence_command`).
"""

import contextlib
import socket
import struct
import threading
from collections.abc import Callable

from . import handshake
from .deadline import NEVER, WatchedDeadline, now
from .handshake import LEAST_S
from .own_status import OwnStatus, StatusLines

PERIOD_S = 0.5
FOLLOW_S = 2.0
"""Seconds for a new head to accept a connection."""
CONNECT_S = 0.5
"""The same for a head that is followed: a node that was cut off is answered within so long, not at TCP's next try."""
REPLY_S = 1.0
FOLLOW_TRIES = 3
"""How often a head that answers without a proof is asked before it is not followed: others may crowd its port."""
LEAVES = b"\t"
"""Sent without a key before the name of a node that leaves; no name begins with it."""

LATELY_S = 3.0
TELL_S = 0.5
"""Seconds for sending a status: what is not taken by then waits for another connection."""


class Heartbeat:
    """The node's side. `silent` is called once for each silence, with the reason."""

    def __init__(
        self,
        name: str,
        key: bytes | None,
        limit: float,
        silent: Callable[[str], None],
        publish: Callable[[float], None],
        clock: Callable[[], float] = now,
        status: OwnStatus | None = None,
    ) -> None:
        self._name, self._key, self._limit = name, key, limit
        self._silent, self._publish = silent, publish
        self._clock = clock
        self._woken = threading.Event()
        self._status = status
        self._lines: StatusLines | None = None
        if status is not None:
            status.changed = self._woken.set
        self._turn = threading.Lock()
        self._head: tuple[str, int] | None = None
        self._hint: tuple[str, int] | None = None
        self._named: tuple[str, int] | None = None
        self._beside: WatchedDeadline | None = None
        self._link: socket.socket | None = None
        self._session: handshake.Session | None = None
        self._answered = self._taken = 0.0
        self._refused = False
        self._stopped = False

    @property
    def silence(self) -> float | None:
        """Return the time since the head's machine last answered (s).

        None while there is no head.
        """
        return max(0.0, self._clock() - self._answered) if self._head else None

    @property
    def unheard(self) -> float | None:
        """Return the time since anything on the head's machine last took a heartbeat (s).

        A machine that refuses the connection answers, and nothing of the run listens there: it may have been installed
        anew. That stops no node; None while there is no head.
        """
        return max(0.0, self._clock() - self._taken) if self._head else None

    @property
    def followed(self) -> str | None:
        """Return the address of the head's machine, as it was given; None while there is no head."""
        return self._named[0] if self._head and self._named else None

    @property
    def head_bound(self) -> bool:
        """Whether this stops the node when the head's agent on the same machine has ended or hangs."""
        return self._beside is not None

    def hint(self, address: str, port: int) -> None:
        """Follow this head from the next second on, unless another is followed.

        Its machine has to answer. For an agent without a slot, which can still report that the head's machine is
        silent.
        """
        self._hint = (address, port)

    def follow(self, address: str, port: int, beside: WatchedDeadline | None = None) -> bool:
        """Follow this head, if its agent answers; return whether it does.

        `beside` is the deadline of its agent, where that is on this machine. Its name is resolved once, here. Nothing
        is started for a head before this: so the head knows every node on which something of it runs.
        """
        with self._turn:
            replies = (self._follow(address, port) for _ in range(FOLLOW_TRIES))
            followed = next((reply for reply in replies if reply != b""), None) == handshake.OK
            if followed:
                self._beside, beside = beside, self._beside
        if beside is not None:
            beside.close()
        return followed

    def _follow(self, address: str, port: int) -> bytes | None:
        """Follow a head if its agent proves itself; return its reply, as `_send` does."""
        asked = self._clock()
        try:
            found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][4]
        except OSError:
            return None
        head = (str(found[0]), int(found[1]))
        self._hang_up()
        reply = self._send(head, FOLLOW_S, connect=FOLLOW_S)
        if reply == handshake.OK:
            self._named, self._head, self._stopped = (address, port), head, False
            self._count(asked, reply)
        return reply

    def step(self) -> float:
        """Send one heartbeat, and stop the node where that is due.

        Return the time until the next heartbeat (s).
        """
        with self._turn:
            if self._hint is not None and self._hint != self._named:
                self._follow(*self._hint)
            self._hint = None
            if self._head is None:
                return PERIOD_S
            begun = self._clock()
            left = self._answered + self._limit - begun
            # Checked first: an agent that was stopped or suspended for so long counts as lost already.
            limit = REPLY_S if self._stopped else max(LEAST_S, left)
            reply = None if left <= 0 and not self._stopped else self._send(self._head, limit)
            if reply == handshake.STOP:
                self._end("told to by the head's agent, which is cut off from most nodes")
            elif self._clock() >= self._head_ends(reply):
                self._end("the head's agent on this machine has ended, or does not answer")
            elif reply is not None:
                self._count(begun, reply)
                self._stopped = False
                self._tell()
            elif self._clock() >= self._answered + self._limit:
                self._end(f"no answer from the head's machine for {self._limit:.0f} s")
            left = self._answered + self._limit - self._clock()
            pause = PERIOD_S - (self._clock() - begun)
            return max(LEAST_S, pause if self._stopped else min(pause, left))

    def leave(self) -> None:
        """Tell the head that nothing of the run is left here.

        Only where it answers; it is followed no more. It must not count released nodes as silent ones.
        """
        with self._turn:
            head, lately = self._head, self._clock() - self._answered < LATELY_S
            self._head = self._hint = None
            if head and lately:
                self._send(head, REPLY_S, leave=True)
            self._hang_up()

    def keep(self, stopping: threading.Event) -> None:
        """Send heartbeats until `stopping` is set, the next one at once when the status has changed."""
        while not stopping.is_set():
            self._woken.wait(self.step())
            self._woken.clear()

    def _tell(self) -> None:
        """Send the status, if the head's agent does not have it; one that cannot be sent now is sent again."""
        if not self._lines or not self._session or not self._link or not (word := self._lines.state(self._clock())):
            return
        try:
            self._link.settimeout(TELL_S)
            self._link.sendall(self._session.sign(word))
        except OSError:
            self._hang_up()

    def _count(self, asked: float, reply: bytes) -> None:
        self._answered = asked
        self._taken = self._taken if self._refused else asked
        self._publish(min(asked + self._limit, self._head_ends(reply)))

    def _head_ends(self, reply: bytes | None) -> float:
        """Return when a head's agent on this machine that does not answer stops itself, if it hears nothing more."""
        return NEVER if reply == handshake.OK or self._beside is None else self._beside.read()

    def _end(self, message: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._silent(message)

    def _send(
        self, head: tuple[str, int], limit: float, *, connect: float = CONNECT_S, leave: bool = False
    ) -> bytes | None:
        """Return the reply of the head's agent.

        Empty where only its machine answers, None where nothing does.
        """
        fresh, self._refused = self._link is None, False
        try:
            if self._link is None:
                self._link = socket.create_connection(head, timeout=min(connect, limit))
                reply = self._begin(self._link, min(REPLY_S, limit))
                if not reply or not leave:
                    return reply or self._gone()
            return self._exchange(self._link, min(REPLY_S, limit), leave=leave) or self._gone()
        except ConnectionError as error:
            self._refused = isinstance(error, ConnectionRefusedError)
            return self._gone()
        except OSError:
            taken = fresh and self._link is not None
            self._hang_up()
            return b"" if taken else None

    def _begin(self, link: socket.socket, limit: float) -> bytes:
        """Return the reply to the first heartbeat of a connection, with which both sides prove who they are."""
        if self._key is None:
            return self._exchange(link, limit, leave=False)
        answer = handshake.answered(handshake.read_line(link, limit), self._key, self._name)
        if answer is None:
            return b""
        self._session, own = answer
        self._lines = StatusLines(self._status) if self._status else None
        link.sendall(own)
        return self._reply(link, limit)

    def _exchange(self, link: socket.socket, limit: float, *, leave: bool) -> bytes:
        link.settimeout(limit)
        if self._session is not None:
            beat = self._lines.beat(self._clock()) if self._lines else handshake.BEAT
            link.sendall(self._session.sign(handshake.LEAVE if leave else beat))
        else:
            link.sendall((LEAVES if leave else b"") + self._name.encode() + b"\n")
        return self._reply(link, limit)

    def _reply(self, link: socket.socket, limit: float) -> bytes:
        """Return the word of a reply; empty where it has no valid proof."""
        line = handshake.read_line(link, limit)
        return line if self._key is None else (self._session and self._session.word(line)) or b""

    def _gone(self) -> bytes:
        self._hang_up()
        return b""

    def _hang_up(self) -> None:
        """Close at once and drop what was not sent.

        The head must not receive it long after.
        """
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._link.close()
            self._link = self._session = self._lines = None
