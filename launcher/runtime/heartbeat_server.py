"""Heartbeats as the head's agent receives them, and the head's self-stop.

The other side of `heartbeat.py`. What is read in one round has arrived since the round before, at an unknown moment: so
each node has two times. `late` is the end of that interval, and decides when a node counts as lost: others may act on
its silence only when that is certain. `early` is its beginning, and decides when the head stops itself. An age counts
up to the end of the last round: while this process is stopped, no age grows.

Cut off: of the nodes with a heartbeat within the last minute, fewer than half had one within `self_stop`. A tie is in
favour of the head; a node that was released says so, and is not counted. To count the head as lost takes more than half
of the nodes of the last minute, each silent for longer than that (`heartbeat.py` says by how much), so never both. A
server that was stopped for `self_stop` cannot know what was decided meanwhile, and is cut off by the same rule.
"""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable

from .heartbeat import LEAVES, LINE, now

ROUND_S = 0.25
IDLE_S = 30.0
FORGET_S = 24 * 3600.0


class _Peer:
    """One connection: part of a line, the name of its node, the last read (s)."""

    def __init__(self, link: socket.socket, address: str, at: float) -> None:
        self.link = link
        self.address = address
        self.part = b""
        self.name = ""
        self.at = at


class HeartbeatServer:
    """The head's side. `cut` is called once when it is cut off."""

    def __init__(
        self, limit: float, population: float, cut: Callable[[], None], clock: Callable[[], float] = now
    ) -> None:
        self._limit = limit
        self._population = population
        self._cut = cut
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._server: socket.socket | None = None
        self._late: dict[str, float] = {}
        self._early: dict[str, float] = {}
        self._names: dict[str, set[str]] = {}
        self._turn = threading.Lock()
        self._since = self._round = self._clock()
        self.cut_off = False

    def listen(self, address: str, port: int) -> int:
        """Listen; return the port."""
        self._server = socket.create_server((address, port), backlog=4096)
        self._server.setblocking(False)
        self._selector.register(self._server, selectors.EVENT_READ)
        return int(self._server.getsockname()[1])

    def keep(self, stopping: threading.Event) -> None:
        """Receive heartbeats until `stopping` is set."""
        while not stopping.is_set():
            self.step(ROUND_S)

    def begin(self) -> None:
        """Start over for a new head.

        Nodes that sent heartbeats before do not count as silent.
        """
        with self._turn:
            self._early.clear()
            self.cut_off = False

    def ages(self) -> dict[str, float]:
        """Return the seconds since each node's last heartbeat."""
        with self._turn:
            return {name: max(0.0, self._round - late) for name, late in self._late.items()}

    @property
    def listening(self) -> float:
        """Return for how long this has been listening (s)."""
        return max(0.0, self._round - self._since)

    def step(self, patience: float) -> None:
        """Read what comes within `patience` seconds, reply, and check for a cut."""
        ready = self._selector.select(patience)
        with self._turn:
            before, at = self._round, self._clock()
            for key, _ in ready:
                if key.fileobj is self._server:
                    self._take_all(before, at)
                else:
                    self._read(key.data, before, at)
            self._drop_idle(at)
            self._round = at
            cut = not self.cut_off and self._is_cut_off(at)
            self.cut_off = self.cut_off or cut
        if cut:
            self._cut()

    def _is_cut_off(self, at: float) -> bool:
        ages = [at - early for early in self._early.values()]
        heard = sum(1 for age in ages if age < self._limit)
        return 2 * heard < sum(1 for age in ages if age < self._population)

    def _take_all(self, before: float, at: float) -> None:
        assert self._server
        while True:
            try:
                link, address = self._server.accept()
            except OSError:  # none is left, or no descriptor is: then no node is counted, and those that wait try again
                return
            link.setblocking(False)
            peer = _Peer(link, str(address[0]), at)
            self._selector.register(link, selectors.EVENT_READ, peer)
            self._read(peer, before, at)

    def _read(self, peer: _Peer, before: float, at: float) -> None:
        try:
            part = peer.link.recv(LINE)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        peer.part += part
        if not part or len(peer.part) > 2 * LINE:
            self._close(peer, at)
        elif peer.part.endswith(b"\n"):
            self._count(peer, before, at)

    def _count(self, peer: _Peer, before: float, at: float) -> None:
        name = peer.part.splitlines()[-1].decode(errors="replace")
        peer.part, peer.name, peer.at = b"", name, at
        if name.startswith(LEAVES.decode()):
            self._forget(name.removeprefix(LEAVES.decode()), peer.address)
        else:
            self._early[name], self._late[name] = max(before, self._early.get(name, before)), at
            self._names.setdefault(peer.address, set()).add(name)
        try:
            peer.link.send(b"stop\n" if self.cut_off else b"ok\n")
        except OSError:
            self._close(peer, at)

    def _drop_idle(self, at: float) -> None:
        peers = [key.data for key in self._selector.get_map().values() if key.data is not None]
        for peer in peers:
            if at - peer.at > IDLE_S:
                self._close(peer, at)
        for name in [name for name, late in self._late.items() if at - late > FORGET_S]:
            self._forget(name, "")

    def _forget(self, name: str, address: str) -> None:
        self._late.pop(name, None)
        self._early.pop(name, None)
        self._names.get(address, set()).discard(name)

    def _close(self, peer: _Peer, at: float) -> None:
        """Close a connection.

        One that was accepted and never sent a name counts for all nodes that ever sent one from its address: the node
        that opened it knows that this machine answers.
        """
        if not peer.name:
            self._late.update(dict.fromkeys(self._names.get(peer.address, ()), at))
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.link)
        peer.link.close()
