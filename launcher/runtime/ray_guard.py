"""Runs a part of Ray in a container, and ends it with the process on the node that follows it.

No signal tells a process in a container of the end of one outside. Their numbers are the same there: so it is watched.
"""

import os
import select
import signal
import threading
from collections.abc import Callable


def main(argv: list[str]) -> int:
    """Become a part of Ray: `ray_guard PID PART ARGUMENT...`; it is killed once the process PID has ended."""
    follower, part, *rest = argv
    try:
        handle = os.pidfd_open(int(follower))
    except ProcessLookupError:
        return 1
    threading.Thread(target=_end_with, args=(handle,), name="guard", daemon=True).start()
    return _part(part)(rest)


def _end_with(handle: int) -> None:
    """Kill this process as soon as the other has ended, as the parent-death signal does on the node."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    poll.poll()
    os.kill(os.getpid(), signal.SIGKILL)


def _part(name: str) -> Callable[[list[str]], int]:
    if name == "supervisor":
        from . import supervisor

        return supervisor.main
    from . import ray_start

    return ray_start.start
