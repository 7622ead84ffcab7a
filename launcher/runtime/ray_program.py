"""`ray start --block`, whose raylet is watched beside it.

It looks once a second whether its raylet and GCS live, and on a busy machine much later: their ends are known here at
once. It is killed then, for it would only report what is known already. What they leave behind is found by its mark.
"""

import contextlib
import os
import select
import threading
from collections.abc import Iterator
from pathlib import Path

from .watched import WatchedProgram

NAMES = ("raylet", "gcs_server")
LOST = 1
"""The exit code that `ray start --block` ends with itself when its raylet has ended."""

FIND_S = 0.5
"""Seconds between looks for a raylet that is still being started."""


class RayProgram(WatchedProgram):
    """The program that keeps a raylet, or the head's raylet and GCS."""

    def begun(self, pid: int) -> None:
        """Follow what the program starts."""
        with contextlib.suppress(RuntimeError):  # no thread more: the program looks itself
            threading.Thread(target=self._follow, args=(pid,), name="raylet", daemon=True).start()

    def _follow(self, program: int) -> None:
        """End the program once a raylet or GCS of it has ended; return when it has ended itself."""
        with contextlib.ExitStack() as opened, contextlib.suppress(OSError):
            own = _opened(opened, program)
            poll = select.poll()
            poll.register(own, select.POLLIN)
            known: dict[str, int] = {}
            while True:
                for name, pid in _begun(program):
                    if name in NAMES and name not in known:
                        known[name] = _opened(opened, pid)
                        poll.register(known[name], select.POLLIN)
                ready = [handle for handle, _ in poll.poll(None if NAMES[0] in known else FIND_S * 1000)]
                if own in ready:
                    return
                if ready:
                    self._lose(program)
                    return

    def _lose(self, program: int) -> None:
        if self._pid == program:  # a child of ours that is not reaped, or has just been: then nothing is killed
            with contextlib.suppress(ProcessLookupError):
                self.kill(LOST)


def _opened(opened: contextlib.ExitStack, pid: int) -> int:
    """Return a descriptor of a process; OSError where there is none."""
    handle = os.pidfd_open(pid)
    opened.callback(os.close, handle)
    return handle


def _begun(parent: int) -> Iterator[tuple[str, int]]:
    """Yield the name and the number of each child of a process."""
    for thread in Path(f"/proc/{parent}/task").iterdir():
        with contextlib.suppress(OSError):  # a thread, or a child, that has just ended
            for word in (thread / "children").read_text().split():
                yield Path(f"/proc/{word}/comm").read_text().strip(), int(word)
