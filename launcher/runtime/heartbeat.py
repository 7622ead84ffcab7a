"""Whether the machine of the run's head still answers.

Connected or refused both count: a head process that is down while its host answers stops nobody. Time is
CLOCK_BOOTTIME: a node that was suspended knows that it was away.
"""

import socket
import threading
import time
from collections.abc import Callable

PERIOD_S = 1.0
CONNECT_S = 2.0


def now() -> float:
    """Answer the seconds since boot, suspension included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def answers(address: str, port: int) -> bool:
    """Answer whether a host says anything on a port within two seconds, `refused` included."""
    try:
        socket.create_connection((address, port), timeout=CONNECT_S).close()
    except ConnectionError:
        return True
    except OSError:
        return False
    return True


def opens(address: str, port: int, limit: float) -> bool:
    """Wait until a port of a program that is starting accepts; answers whether it did within `limit` seconds."""
    deadline, pause = now() + limit, threading.Event()
    while now() < deadline:
        try:
            socket.create_connection((address, port), timeout=CONNECT_S).close()
        except OSError:
            pause.wait(0.1)
        else:
            return True
    return False


def watch(
    head: Callable[[], tuple[str, int] | None], limit: float, silent: Callable[[], None], stopping: threading.Event
) -> None:
    """Call `silent` each time the head's host has answered nothing for `limit` seconds, once it had answered at all."""
    heard: float | None = None
    while not stopping.wait(PERIOD_S):
        at = head()
        if at is None or answers(*at):
            heard = now() if at else None
        elif heard is not None and now() - heard >= limit:
            silent()
            heard = None


def listen(port: int) -> None:
    """Accept on a port and close at once, for ever: all that a heartbeat wants. In a thread of its own."""
    with socket.create_server(("", port), backlog=128) as server:
        threading.Thread(target=_accept, args=(server.dup(),), name="heartbeat", daemon=True).start()


def _accept(server: socket.socket) -> None:
    pause = threading.Event()
    while True:
        try:
            server.accept()[0].close()
        except OSError:  # no descriptor left just now; the kernel's own answer is enough for a heartbeat meanwhile
            pause.wait(0.1)
