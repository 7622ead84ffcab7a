"""Whether the machine of the run's head still answers a slot's agent, and the slot's end when it does not.

Twice a second the agent says its node's name to the agent of the head and reads a word, `ok` or `stop`. A word
counts, and so does a connection that is refused, closed or merely taken: a head process that is down while its host
answers stops nobody. What counts, counts from the moment before it was asked for. When nothing has counted for
`self_stop` seconds, the node ends its own ranks and Ray: others may take it for lost from then on.

Why others may. Let s be when the last question that counted was asked, and t when the head's agent last heard this
node. An answer follows the question, so t >= s, but for a connection that was taken and never read: the head's agent
counts that one when it reads it, and until it has read all that is there its count stands still (see
`heartbeat_server.py`).
This node stops at s + self_stop; the head's side gives it up at t + self_stop + margin. The margin is for the killing.
The other way round: the head can hear a question whose answer is lost, but only one, for TCP takes no further
connection whose answers are lost; so t <= s + PERIOD_S + WORD_S. A head that is cut off ends itself `self_stop` after
that, and the ranks of its own node a period later: within the margin.

Time is CLOCK_BOOTTIME: a node that was suspended knows that it was away. The end of each wait is bounded by what is
left, so that no slow connection delays the stop. An agent that is stopped itself cannot stop anybody: it publishes
the moment until which its ranks may live, and each rank's parent looks at that too (`rank.py`). Where all of a machine
is frozen for longer, and then goes on, only a power switch makes sure (`fence_command`).
"""

import contextlib
import os
import socket
import struct
import threading
import time
from collections.abc import Callable
from pathlib import Path

PERIOD_S = 0.5
CONNECT_S = 2.0
WORD_S = 1.0
LEAST_S = 0.05
LINE = 256
STOP = b"stop"
LEAVES = b"\t"
"""Before the name of a node that leaves: no name begins with it."""

LATELY_S = 3.0
_DEADLINE = struct.Struct("d")


def now() -> float:
    """Return the seconds since boot, suspension included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def opens(address: str, port: int, limit: float) -> bool:
    """Wait until a port of a program that is starting accepts; returns whether it did within `limit` seconds."""
    deadline, pause = now() + limit, threading.Event()
    while now() < deadline:
        try:
            socket.create_connection((address, port), timeout=CONNECT_S).close()
        except OSError:
            pause.wait(0.1)
        else:
            return True
    return False


class Deadline:
    """The moment until which ranks may live (s, CLOCK_BOOTTIME), for their parents; infinity without a head."""

    def __init__(self, path: Path) -> None:
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.put(float("inf"))

    def put(self, moment: float) -> None:
        """Publish it: eight bytes at once, so that nobody reads half of them."""
        os.pwrite(self._handle, _DEADLINE.pack(moment), 0)

    @staticmethod
    def read(path: str) -> float:
        """Return what an agent has published; infinity where it is gone, with its agent."""
        try:
            with open(path, "rb") as file:
                return float(_DEADLINE.unpack(file.read(_DEADLINE.size))[0])
        except (OSError, struct.error):
            return float("inf")


class Beat:
    """The slot's side. `silent` is called once for each silence, with the words for it."""

    def __init__(
        self,
        name: str,
        limit: float,
        silent: Callable[[str], None],
        publish: Callable[[float], None],
        clock: Callable[[], float] = now,
    ) -> None:
        self._name = name.encode() + b"\n"
        self._limit = limit
        self._silent = silent
        self._publish = publish
        self._clock = clock
        self._turn = threading.Lock()
        self._head: tuple[str, int] | None = None
        self._hint: tuple[str, int] | None = None
        self._named: tuple[str, int] | None = None
        self._link: socket.socket | None = None
        self._heard = 0.0
        self._stopped = False

    @property
    def silence(self) -> float | None:
        """Return for how long the head's host has answered nothing (s); None while there is no head."""
        return max(0.0, self._clock() - self._heard) if self._head else None

    def hint(self, address: str, port: int) -> None:
        """Listen for this head from the next second on, if its host answers, and while nothing is started for one:
        who has no slot can still tell others that the head's host is silent."""
        self._hint = (address, port)

    def follow(self, address: str, port: int) -> bool:
        """Listen for this head from now on, if its host answers; its name is looked up just once, here.

        What is started for a head is started after this: so a head knows every node on which something of it runs.
        """
        with self._turn:
            return self._follow(address, port)

    def _follow(self, address: str, port: int) -> bool:
        asked = self._clock()
        try:
            found = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0][4]
        except OSError:
            return False
        head = (str(found[0]), int(found[1]))
        self._hang_up()
        if self._ask(head, CONNECT_S) is None:
            return False
        self._named, self._head, self._stopped = (address, port), head, False
        self._count(asked)
        return True

    def step(self) -> float:
        """Ask once, stop what there is to stop; returns how long to wait until the next time (s)."""
        with self._turn:
            if self._hint is not None and self._hint != self._named:
                self._follow(*self._hint)
            self._hint = None
            if self._head is None:
                return PERIOD_S
            begun = self._clock()
            left = self._heard + self._limit - begun
            # Looked at first: an agent that was stopped or suspended for so long has been given up already.
            limit = CONNECT_S if self._stopped else max(LEAST_S, left)
            word = None if left <= 0 and not self._stopped else self._ask(self._head, limit)
            if word == STOP:
                self._end("the head's agent says so: it is cut off from most nodes")
            elif word is not None:
                self._count(begun)
                self._stopped = False
            elif self._clock() >= self._heard + self._limit:
                self._end(f"the head's machine has answered nothing for {self._limit:.0f} s")
            left = self._heard + self._limit - self._clock()
            pause = PERIOD_S - (self._clock() - begun)
            return max(LEAST_S, pause if self._stopped else min(pause, left))

    def leave(self) -> None:
        """Tell the head that nothing of the run is left here, if it is well, and listen for it no more: it must not
        take those that were let go of for nodes that it cannot hear."""
        with self._turn:
            head, lately = self._head, self._clock() - self._heard < LATELY_S
            self._head = self._hint = None
            if head and lately:
                self._ask(head, WORD_S, LEAVES + self._name)
            self._hang_up()

    def keep(self, stopping: threading.Event) -> None:
        """Go on for ever."""
        while not stopping.wait(self.step()):
            pass

    def _count(self, asked: float) -> None:
        self._heard = asked
        self._publish(asked + self._limit)

    def _end(self, message: str) -> None:
        if not self._stopped:
            self._stopped = True
            self._silent(message)

    def _ask(self, head: tuple[str, int], limit: float, line: bytes = b"") -> bytes | None:
        """Return the word of the head's agent, an empty one where only its host answers, None where nobody does."""
        fresh = self._link is None
        try:
            if self._link is None:
                self._link = socket.create_connection(head, timeout=min(CONNECT_S, limit))
            return self._word(self._link, line or self._name, min(WORD_S, limit)) or self._gone()
        except ConnectionError:
            return self._gone()
        except OSError:
            taken = fresh and self._link is not None
            self._hang_up()
            return b"" if taken else None

    def _word(self, link: socket.socket, line: bytes, limit: float) -> bytes:
        link.settimeout(limit)
        link.sendall(line)
        return link.recv(LINE).strip()

    def _gone(self) -> bytes:
        self._hang_up()
        return b""

    def _hang_up(self) -> None:
        """Close at once and drop what was not sent: the head must not hear it long after it was said."""
        if self._link is not None:
            with contextlib.suppress(OSError):
                self._link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._link.close()
            self._link = None
