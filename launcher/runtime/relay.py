"""Asks the agents of a machine for whoever looks at it or has something to be done there: runs as long as its stdin is
open and questions come.

Sent as a text and run by whatever Python is there, before anything of ours lies on the machine. Each line on stdin is
a question for one agent: `key`, `socket`, `package`, `root`, `question`, `limit` (s). Each line on stdout is an
answer, as soon as it is there: `key`, and `answer` or `words`. So an agent that hangs holds up nobody else.
"""

import fcntl
import json
import os
import select
import socket
import sys
import time

TYPE_CHECKING = False  # each machine of a run pays for each import here
if TYPE_CHECKING:
    import subprocess
    from typing import Any

IDLE_S = 60.0
"""Seconds without a question after which whoever asked is gone, whatever the connection says."""

HOLDS_S = 10.0
"""Seconds for which it is not looked again whether a run without an agent has left something behind: nothing comes of
nothing. Longer than the longest time between two looks, so that a slow answer is there for the next one."""

ALONE_S = 15.0
"""Seconds for our program that looks for that: on a busy machine its start alone takes some."""

SIGN_S = 1.0
"""Seconds between two signs of life while it does: a connection on which nothing comes is given up."""

BEGUN = "ports.json"
"""What an agent writes before it listens, and so before it starts anything: without it nothing can be left behind."""

PART = 1 << 16


class Way:
    """A question under way: to an agent's socket, or to our program that answers in place of an agent."""

    def __init__(self, asked: "dict[str, Any]") -> None:
        self.asked = asked
        self.begun = time.monotonic()
        self.deadline = self.begun + asked["limit"]
        self.said = b""
        self.child: subprocess.Popen[bytes] | None = None
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.link.setblocking(False)

    def begin(self) -> bool:
        """Send the question; returns whether somebody listens. An agent that hangs may have a full queue."""
        try:
            self.link.connect(self.asked["socket"])
            self.link.send(json.dumps(self.asked["question"]).encode())
            self.link.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def begin_alone(self) -> None:
        """Have our program on the machine answer in place of an agent."""
        import subprocess

        if self.asked["question"].get("op") == "status":
            self.deadline = time.monotonic() + ALONE_S
        argv = [sys.executable, "-EsS", self.asked["package"], "orphans", "ask", self.asked["root"]]
        question = json.dumps(self.asked["question"]).encode()
        reading, writing = os.pipe()
        os.write(writing, question)
        os.close(writing)
        with open(reading, "rb") as source:
            self.child = subprocess.Popen(argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)

    @property
    def handle(self) -> int:
        """Return what to wait for."""
        return self.child.stdout.fileno() if self.child and self.child.stdout else self.link.fileno()

    def read(self) -> bool:
        """Take what has come; returns whether more may come."""
        try:
            part = os.read(self.handle, PART)
        except BlockingIOError:
            return True
        except OSError:
            part = b""
        self.said += part
        return bool(part)

    def close(self) -> None:
        """Let go of it; a program that has not ended is ended."""
        self.link.close()
        if self.child:
            self.child.kill()
            self.child.communicate()


class Looks:
    """All questions under way."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self.ways: dict[int, Way] = {}
        self.empty: dict[str, float] = {}

    def ask(self, asked: "dict[str, Any]") -> None:
        """Begin a question."""
        way = Way(asked)
        if way.begin():
            self.empty.pop(asked["root"], None)
            self._wait_for(way)
            return
        root, looked = asked["root"], asked["question"].get("op") == "status"
        if not os.path.exists(asked["package"] + "/__main__.py"):
            self._say(way, {"answer": {"ok": True, "absent": True}})
        elif looked and not os.path.exists(root + "/" + BEGUN) and _is_starting(asked["socket"]):
            self._say(way, {"message": "its agent is starting"})
        elif looked and (self._is_held(root) or not os.path.exists(root + "/" + BEGUN)):
            self._say(way, {"answer": {"ok": True, "agent": None, "leftovers": 0}})
        else:
            way.begin_alone()
            self._wait_for(way)

    def _is_held(self, root: str) -> bool:
        return time.monotonic() - self.empty.get(root, -HOLDS_S) < HOLDS_S

    def _wait_for(self, way: Way) -> None:
        self.ways[way.handle] = way
        self.poll.register(way.handle, select.POLLIN)

    def turn(self) -> bool:
        """Wait for what comes next and pass it on; returns whether a question has come."""
        now = time.monotonic()
        alone = any(way.child for way in self.ways.values())
        patience = min([way.deadline - now for way in self.ways.values()] + [SIGN_S if alone else IDLE_S])
        ready = [handle for handle, _ in self.poll.poll(max(0.0, patience) * 1000)]
        for handle in ready:
            way = self.ways.get(handle)
            if way and not way.read():
                self._end(way)
        for way in [way for way in self.ways.values() if way.deadline <= time.monotonic()]:
            whom = "our program" if way.child else "the agent"
            self._end(way, f"{whom} did not answer within {way.deadline - way.begun:.0f} s")
        if alone and not ready:
            os.write(1, b"\n")
        return 0 in ready

    def _end(self, way: Way, message: str = "the agent hung up") -> None:
        self.poll.unregister(way.handle)
        del self.ways[way.handle]
        try:
            found = {"answer": json.loads(way.said)}
        except ValueError:
            found = {"message": message}
        if way.child and found.get("answer", {}).get("leftovers") == 0:
            self.empty[way.asked["root"]] = time.monotonic()
        self._say(way, found)

    def _say(self, way: Way, found: "dict[str, Any]") -> None:
        data = json.dumps({"key": way.asked["key"], **found}).encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]
        way.close()


def _is_starting(socket_path: str) -> bool:
    """Whether somebody just starts an agent: that holds a lock beside its socket until it is known to live."""
    try:
        lock = os.open(os.path.dirname(socket_path) + "/lock", os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def main() -> None:
    """Pass questions and answers on until nobody asks any more."""
    looks, pending, since = Looks(), b"", time.monotonic()
    looks.poll.register(0, select.POLLIN)
    while time.monotonic() - since < IDLE_S:
        if not looks.turn():
            continue
        part = os.read(0, PART)
        if not part:
            break
        since = time.monotonic()
        *lines, pending = (pending + part).split(b"\n")
        for line in lines:
            looks.ask(json.loads(line))
    # What was asked last, and then hung up, is still answered: that is how a single question is asked.
    looks.poll.unregister(0)
    while looks.ways:
        looks.turn()


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
