"""Passes requests on to the agents of a machine.

Sent as text and run by the machine's Python, before any file of ours is there; it runs while its stdin is open and
requests come. Each line on stdin is a `RelayQuestion`, each line on stdout a `RelayAnswer`, written as soon as the
agent has answered: an agent that hangs delays no other.
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

    from .protocol_programs import RelayQuestion

IDLE_S = 60.0
"""Seconds without a request after which the launcher counts as gone, whatever the connection says."""

HOLDS_S = 10.0
"""Seconds for which a folder without an agent and without leftovers is not scanned again: nothing comes of nothing.
Longer than the longest time between two looks, so that a slow answer is there for the next one."""

SCAN_S = 15.0
"""Seconds for the program that scans for leftovers: on a busy machine its start alone takes some."""

SIGN_S = 1.0
"""Seconds between two signs of life during a scan: a connection on which nothing comes is given up."""

BEGUN = "ports.json"
"""The file that an agent writes before it listens, and so before it starts anything: without it nothing is left."""

END_S = 3.0
"""Seconds in which an agent that was told to stop, and says that it does, has to be gone."""

PART = 1 << 16

LARGEST = 64 << 20
"""Bytes of a reply, and of a question."""


class PendingRequest:
    """A request under way.

    It goes to an agent's socket, or to the program that replies where there is no agent.
    """

    def __init__(self, asked: "RelayQuestion") -> None:
        self.asked = asked
        self.begun = time.monotonic()
        self.deadline = self.begun + asked["limit"]
        self.reply = b""
        self.child: subprocess.Popen[bytes] | None = None
        self.agent = 0
        self.ending: int | None = None
        self.found: dict[str, Any] = {}
        self.link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.link.setblocking(False)

    def send(self) -> bool:
        """Send the request; return whether an agent listens.

        One that hangs may have a full queue. Another user's program is no agent, and is sent nothing.
        """
        try:
            self.link.connect(self.asked["socket"])
            self.agent, user = _peer(self.link)
            if user != os.geteuid():
                return False
            self.link.send(json.dumps(self.asked["question"]).encode())
            self.link.shutdown(socket.SHUT_WR)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return True

    def scan(self) -> bool:
        """Start the program that replies in place of an agent; return whether that was possible."""
        import subprocess

        if self.asked["question"].get("op") == "status":
            self.deadline = time.monotonic() + SCAN_S
        argv = [sys.executable, "-EsS", self.asked["package"], "orphans", "ask", self.asked["root"]]
        question = json.dumps(self.asked["question"]).encode()
        try:
            reading, writing = os.pipe()
            os.write(writing, question)
            os.close(writing)
            with open(reading, "rb") as source:
                self.child = subprocess.Popen(argv, stdin=source, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        except OSError:
            return False
        return True

    def reply_here(self) -> "dict[str, Any]":
        """Return the answer of that program, run within this one: no process more can be started on the machine.

        It may take as long as a kill takes, and delays the requests after it.
        """
        from importlib import import_module
        from pathlib import Path

        folder, package = os.path.split(self.asked["package"])
        sys.path.insert(0, folder or ".")
        try:
            files, orphans = import_module(package + ".files"), import_module(package + ".orphans")
            root = Path(self.asked["root"])
            return {"answer": orphans.reply(root, files.agent_spec(root), self.asked["question"])}
        except Exception as error:  # noqa: BLE001 - whatever is wrong here, other agents are asked over this connection
            return {"message": f"{type(error).__name__}: {error}"}
        finally:
            sys.path.pop(0)

    def await_end(self, found: "dict[str, Any]") -> bool:
        """Whether the agent has said that it stops and still lives: its lease is free once it is gone."""
        answer = found.get("answer")
        if self.child or self.asked["question"].get("op") != "stop" or not isinstance(answer, dict):
            return False
        try:
            self.ending = os.pidfd_open(self.agent) if answer.get("ok") else None
        except OSError:
            return False
        self.found, self.deadline = found, time.monotonic() + END_S
        return self.ending is not None

    @property
    def handle(self) -> int:
        """Return the descriptor to wait for."""
        if self.ending is not None:
            return self.ending
        return self.child.stdout.fileno() if self.child and self.child.stdout else self.link.fileno()

    def read(self) -> bool:
        """Read what has come; return whether more may come."""
        try:
            part = os.read(self.handle, PART)
        except BlockingIOError:
            return True
        except OSError:
            part = b""
        self.reply += part
        if len(self.reply) > LARGEST:
            self.reply, part = b"", b""
        return bool(part)

    def close(self) -> None:
        """Close the connection, and end a program that still runs."""
        self.link.close()
        if self.ending is not None:
            os.close(self.ending)
        if self.child:
            self.child.kill()
            self.child.communicate()


class Relay:
    """All requests under way."""

    def __init__(self) -> None:
        self.poll = select.poll()
        self.pending: dict[int, PendingRequest] = {}
        self.empty: dict[str, float] = {}

    def ask(self, asked: "RelayQuestion") -> None:
        """Begin a request."""
        request = PendingRequest(asked)
        if request.send():
            self.empty.pop(asked["root"], None)
            self._wait_for(request)
            return
        root, looked = asked["root"], asked["question"].get("op") == "status"
        if not os.path.exists(asked["package"] + "/__main__.py"):
            self._answer(request, {"answer": {"ok": True, "absent": True}})
        elif asked["question"].get("op") == "views":
            self._answer(request, {"message": "no agent listens"})
        elif looked and not os.path.exists(root + "/" + BEGUN) and _is_starting(asked["socket"]):
            self._answer(request, {"message": "the agent is starting"})
        elif looked and (self._is_empty(root) or not os.path.exists(root + "/" + BEGUN)):
            self._answer(request, {"answer": {"ok": True, "agent": None, "leftovers": 0}})
        elif request.scan():
            self._wait_for(request)
        else:
            self._answer(request, request.reply_here())

    def _is_empty(self, root: str) -> bool:
        return time.monotonic() - self.empty.get(root, -HOLDS_S) < HOLDS_S

    def _wait_for(self, request: PendingRequest) -> None:
        self.pending[request.handle] = request
        self.poll.register(request.handle, select.POLLIN)

    def turn(self) -> bool:
        """Wait for what comes next and pass it on; return whether a request has come."""
        now = time.monotonic()
        scanning = any(request.child for request in self.pending.values())
        limits = [request.deadline - now for request in self.pending.values()]
        patience = min([*limits, SIGN_S if scanning else IDLE_S])
        ready = [handle for handle, _ in self.poll.poll(max(0.0, patience) * 1000)]
        for handle in ready:
            request = self.pending.get(handle)
            if request and (request.ending is not None or not request.read()):
                self._end(request)
        for request in [one for one in self.pending.values() if one.deadline <= time.monotonic()]:
            what = "the scan for leftover processes" if request.child else "the agent"
            self._end(request, f"{what} did not answer within {request.deadline - request.begun:.0f} s")
        if scanning and not ready:
            os.write(1, b"\n")
        return 0 in ready

    def _end(self, request: PendingRequest, message: str = "the agent closed the connection") -> None:
        self.poll.unregister(request.handle)
        del self.pending[request.handle]
        if request.ending is not None:
            self._answer(request, request.found)
            return
        found: dict[str, Any]
        try:
            found = {"answer": json.loads(request.reply)}
        except (ValueError, RecursionError):
            found = {"message": message}
        answer = found.get("answer")
        if request.child and isinstance(answer, dict) and answer.get("leftovers") == 0:
            self.empty[request.asked["root"]] = time.monotonic()
        if request.await_end(found):
            self._wait_for(request)
        else:
            self._answer(request, found)

    def _answer(self, request: PendingRequest, found: "dict[str, Any]") -> None:
        data = json.dumps({"key": request.asked["key"], **found}).encode() + b"\n"
        while data:
            data = data[os.write(1, data) :]
        request.close()


def _peer(link: socket.socket) -> "tuple[int, int]":
    """Return the process that listens at the other end of a Unix socket, and the id of its user."""
    peer = link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int.from_bytes(peer[:4], sys.byteorder), int.from_bytes(peer[4:8], sys.byteorder)


def _is_starting(socket_path: str) -> bool:
    """Whether an agent is being started.

    Its starter holds a lock beside the socket until the agent answers.
    """
    try:
        lock = os.open(os.path.dirname(socket_path) + "/lock", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        if os.fstat(lock).st_uid != os.geteuid():
            return False
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    else:
        return False
    finally:
        os.close(lock)


def main() -> None:
    """Pass requests and replies on until no request comes any more."""
    relay, unread, since = Relay(), b"", time.monotonic()
    relay.poll.register(0, select.POLLIN)
    while time.monotonic() - since < IDLE_S:
        if not relay.turn():
            continue
        part = os.read(0, PART)
        if not part:
            break
        since = time.monotonic()
        *lines, unread = (unread + part).split(b"\n")
        if len(unread) > LARGEST:
            break
        for line in lines:
            relay.ask(json.loads(line))
    # What was asked before stdin was closed is still answered: that is how a single request is sent.
    relay.poll.unregister(0)
    while relay.pending:
        relay.turn()


if __name__ == "__main__":
    try:
        main()
    except (BrokenPipeError, KeyboardInterrupt):
        sys.exit(1)
