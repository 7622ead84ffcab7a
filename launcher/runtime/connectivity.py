"""Which other machines answer when this one connects to them.

Asked for where the launcher cannot reach them. Any answer counts, a refused port too. Machines are probed in the
background, once a second at most, while somebody asks; a result holds for a few seconds.
"""

import contextlib
import errno
import selectors
import socket
import threading
from collections.abc import Mapping, Sequence

from .deadline import now

CONNECT_S = 2.0
PERIOD_S = 1.0
HOLDS_S = 5.0
MOST = 256

Targets = Mapping[str, tuple[str, Sequence[int]]]


def opens(address: str, port: int, limit: float) -> bool:
    """Wait until a port accepts connections, `limit` seconds at most.

    Return whether it does. An IPv6 address may be in brackets, as Ray writes it.
    """
    deadline, pause = now() + limit, threading.Event()
    while now() < deadline:
        try:
            socket.create_connection((address.strip("[]"), port), timeout=CONNECT_S).close()
        except OSError:
            pause.wait(0.1)
        else:
            return True
    return False


class Connectivity:
    """The results of the last probes, by the name of the machine."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._found: dict[str, tuple[float, bool]] = {}
        self._probing = False
        self._begun = -PERIOD_S

    def probe(self, targets: Targets) -> dict[str, bool]:
        """Return which of these machines answered lately, and probe them again."""
        at = now()
        with self._turn:
            known = {name: found for name, found in self._found.items() if name in targets and at - found[0] < HOLDS_S}
            self._found = known
            if targets and not self._probing and at - self._begun >= PERIOD_S:
                self._probing, self._begun = True, at
                wanted = dict(list(targets.items())[:MOST])
                threading.Thread(target=self._probe, args=(wanted,), name="probe", daemon=True).start()
            return {name: answers for name, (_, answers) in known.items()}

    def _probe(self, targets: Targets) -> None:
        try:
            found = answering(targets)
            at = now()
            with self._turn:
                self._found.update({name: (at, name in found) for name in targets})
        finally:
            self._probing = False


def answering(targets: Targets, limit: float = CONNECT_S) -> set[str]:
    """Return which machines answer on any port within `limit` seconds.

    All are probed at once.
    """
    found: set[str] = set()
    with contextlib.ExitStack() as links, selectors.DefaultSelector() as selector:
        for name, (address, ports) in targets.items():
            for port in ports:
                link, code = _begin(address, port)
                links.callback(link.close)
                if code == errno.EINPROGRESS:
                    selector.register(link, selectors.EVENT_WRITE, name)
                elif _is_answer(code):
                    found.add(name)
        deadline = now() + limit
        while selector.get_map() and (left := deadline - now()) > 0:
            for key, _ in selector.select(left):
                selector.unregister(key.fileobj)
                assert isinstance(key.fileobj, socket.socket)
                if _is_answer(key.fileobj.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                    found.add(key.data)
    return found


def _begin(address: str, port: int) -> tuple[socket.socket, int]:
    """Return a connection in the making, and its errno.

    A name that does not resolve is no answer.
    """
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(address, port, type=socket.SOCK_STREAM)[0]
    except OSError:
        return socket.socket(), errno.EHOSTUNREACH
    link = socket.socket(family, kind, protocol)
    link.setblocking(False)
    return link, link.connect_ex(where)


def _is_answer(code: int) -> bool:
    return code in (0, errno.ECONNREFUSED, errno.ECONNRESET)
