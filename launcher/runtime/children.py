"""Starts and reaps child processes, all in one thread.

One thread, because a parent-death signal fires when the *thread* that started the child ends, and because
`waitid(P_ALL)` returns every exit: those of children of ours and those of adopted orphans.
"""

import os
import queue
import selectors
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path

from . import node_fault

SPAWN = Path(__file__).with_name("spawn.py")
TICK_S = 0.5


class Children:
    """The children of this process.

    `spawn` may be called from any thread; `serve` runs in the main thread.
    """

    def __init__(self, umask: int) -> None:
        self.umask = umask
        self._jobs: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._ends: dict[int, Callable[[int], None]] = {}
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._writing.setblocking(False)
        self.stopping = threading.Event()

    @property
    def pids(self) -> frozenset[int]:
        """Return the live children that we started; all others are adopted."""
        return frozenset(self._ends)

    def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], *, folder: Path, log: Path, ended: Callable[[int], None]
    ) -> int:
        """Start a program that dies with this one, with the user's umask; return its number.

        Its output is appended to `log`. `ended(exit code)` is called once.
        """

        answer: Future[int] = Future()

        def job() -> None:
            try:
                way = [sys.executable, "-EsS", str(SPAWN), str(os.getpid()), f"{self.umask:o}", str(folder)]
                pid = _start([*way, *argv], env, log)
            except OSError as error:
                answer.set_exception(error)
                return
            self._ends[pid] = ended
            answer.set_result(pid)

        self._jobs.put(job)
        self.wake()
        return answer.result(timeout=10)

    def wake(self) -> None:
        """Make `serve` go round at once."""
        try:
            self._writing.send(b"\0")
        except BlockingIOError:
            return  # it is full: the reader is awake already

    def serve(self, tick: Callable[[], None]) -> None:
        """Start and reap until `stopping` is set; call `tick` about twice a second."""
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._writing.fileno(), warn_on_full_buffer=False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._reading, selectors.EVENT_READ)
            while not self.stopping.is_set():
                if selector.select(TICK_S):
                    self._reading.recv(4096)
                self._reap()
                while not self._jobs.empty():
                    self._jobs.get()()
                tick()

    def _reap(self) -> None:
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG)
            except ChildProcessError:
                return
            if found is None:
                return
            code = found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
            ended = self._ends.pop(found.si_pid, None)
            if ended:
                ended(code)


def _start(argv: Sequence[str], env: Mapping[str, str], log: Path) -> int:
    with node_fault.logging_to(log):
        return os.posix_spawn(
            argv[0],
            list(argv),
            dict(env),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_OPEN, 1, str(log), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigdef=[signal.SIGPIPE, signal.SIGINT],
        )
