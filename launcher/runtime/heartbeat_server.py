"""Heartbeats as the head's agent receives them, and the head's self-stop.

The other side of `heartbeat.py`. What is read in one round has arrived since the round before, at an unknown moment: so
each node has two times. `late` is the end of that interval, and decides when a node counts as lost: others may act on
its silence only when that is certain. `early` is its beginning, and decides when the head stops itself. An age counts
up to the end of the last round: while this process is stopped, no age grows.

Only proven heartbeats count (`handshake.py`), so only names of the run are known. Whoever else connects is bounded in
number, in bytes and in time, and the oldest of the most crowded address has to go first. But a node takes a connection
that is accepted for a sign of life, whatever becomes of it, and one that is closed without a proof may be a node's: it
counts for all nodes at its address, and starts the age of unknown ones anew. A full queue of new connections makes the
kernel drop some that their nodes take for accepted: while it cannot be emptied in one round, all nodes count. So
whoever crowds the port can keep silence from being proven, and nothing else.

Cut off: of the nodes with a heartbeat within the last minute, fewer than half had one within `self_stop`. A tie is in
favour of the head; a node that was released says so, and is not counted. To count the head as lost takes more than half
of the nodes of the last minute, each silent for longer than that (`heartbeat.py` says by how much), so never both. A
server that was stopped for `self_stop` cannot know what was decided meanwhile, and is cut off by the same rule. When it
would be cut off if it heard nothing more is published in each round, for the slot beside it (`heartbeat.py`).
"""

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable

from . import handshake
from .deadline import NEVER, now
from .heartbeat import LEAVES
from .protocol_files import node_key
from .status_board import LINE, StatusBoard

ROUND_S = 0.25
IDLE_S = 30.0
FORGET_S = 24 * 3600.0

HELLO_S = 5.0
"""Seconds in which a connection has to prove whose it is."""

STRANGERS = 512
"""Connections without a proof that are kept, of all addresses and (an eighth of it) of one."""

AT_ONCE = 100
"""Connections that are accepted in one round: fewer than any kernel queues (somaxconn was 128 before Linux 5.4), so
that a queue that was full is not emptied."""

MOST_PLAIN = 20_000
"""Names that are believed without a key."""


class _Peer:
    """One connection: part of a line, the name of its node once that is proven, the last time that counts (s)."""

    def __init__(self, link: socket.socket, address: str, at: float) -> None:
        self.link, self.address = link, address
        self.nonce = handshake.nonce()
        self.session: handshake.Session | None = None
        self.part = b""
        self.name = ""
        self.at = at


class HeartbeatServer:
    """The head's side. `cut` is called once when it is cut off. Without a `key`, names are believed.

    `publish` is given the time at which it is cut off, if it hears nothing more; `board` keeps statuses of nodes.
    """

    def __init__(
        self,
        key: bytes | None,
        limit: float,
        population: float,
        cut: Callable[[], None],
        publish: Callable[[float], None],
        clock: Callable[[], float] = now,
        board: StatusBoard | None = None,
    ) -> None:
        self._key = key
        self._limit, self._population = limit, population
        self._cut, self._publish = cut, publish
        self._clock = clock
        self._selector = selectors.DefaultSelector()
        self._server: socket.socket | None = None
        self._late: dict[str, float] = {}
        self._early: dict[str, float] = {}
        self._names: dict[str, set[str]] = {}
        self._links, self._strangers = dict[str, _Peer](), dict[str, list[_Peer]]()
        self._turn = threading.Lock()
        self._since = self._round = self._counted = self._clock()
        self._board = board or StatusBoard(clock)
        self.cut_off = False

    def listen(self, address: str, port: int) -> int:
        """Listen; return the port. Without an address, nodes of IPv6 and of IPv4 are heard."""
        both = address == "" and socket.has_dualstack_ipv6()
        family = socket.AF_INET6 if both else socket.AF_INET
        self._server = socket.create_server((address, port), family=family, backlog=4096, dualstack_ipv6=both)
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
            emptied = True
            for key, _ in ready:
                if key.fileobj is self._server:
                    emptied = self._take_all(before, at)
                elif key.data.link.fileno() >= 0:  # not closed meanwhile, to make room
                    self._read(key.data, before, at)
            if not emptied:
                self._late, self._since = dict.fromkeys(self._late, at), at
            self._round = at
            cut = self._counted + ROUND_S <= at and self._count_all(at)
        if cut:
            self._cut()

    def _count_all(self, at: float) -> bool:
        """Close idle connections, forget nodes of long ago; return whether the head has just been cut off."""
        self._counted = at
        for peer in [key.data for key in self._selector.get_map().values() if key.data is not None]:
            if at - peer.at > (IDLE_S if peer.name else HELLO_S):
                self._close(peer, at)
        for name in [name for name, late in self._late.items() if at - late > FORGET_S]:
            self._forget(name, "")
        cut = not self.cut_off and self._is_cut_off(at)
        self.cut_off = self.cut_off or cut
        self._publish(at if self.cut_off else self._ends(at))
        return cut

    def _is_cut_off(self, at: float) -> bool:
        ages = [at - early for early in self._early.values()]
        heard = sum(1 for age in ages if age < self._limit)
        return 2 * heard < sum(1 for age in ages if age < self._population)

    def _ends(self, at: float) -> float:
        """Return when the head is cut off if it hears nothing more; earlier where nodes drop out until then."""
        early = sorted(early for early in self._early.values() if at - early < self._population)
        return early[-((len(early) + 1) // 2)] + self._limit if early else NEVER

    def _take_all(self, before: float, at: float) -> bool:
        """Accept new connections; return whether none is left."""
        assert self._server
        for _ in range(AT_ONCE):
            try:
                link, address = self._server.accept()
            except BlockingIOError:
                return True
            except OSError:  # no descriptor is left: those that wait try again
                return False
            link.setblocking(False)
            peer = _Peer(link, str(address[0]), at)
            self._selector.register(link, selectors.EVENT_READ, peer)
            self._strangers.setdefault(peer.address, []).append(peer)
            self._make_room(peer.address, at)
            if self._key is None or self._sent(peer, handshake.greeting(peer.nonce), at):
                self._read(peer, before, at)
        return False

    def _make_room(self, address: str, at: float) -> None:
        """Close the oldest connection without a proof of an address, or of the most crowded one."""
        if len(self._strangers[address]) > STRANGERS // 8:
            self._close(self._strangers[address][0], at)
        elif sum(map(len, self._strangers.values())) > STRANGERS:
            self._close(max(self._strangers.values(), key=len)[0], at)

    def _read(self, peer: _Peer, before: float, at: float) -> None:
        longest = LINE if peer.session else handshake.LINE
        try:
            part = peer.link.recv(longest)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        *lines, peer.part = (peer.part + part).split(b"\n")
        if not part or len(peer.part) > longest or not all(self._take(peer, line, before, at) for line in lines):
            self._close(peer, at)

    def _take(self, peer: _Peer, line: bytes, before: float, at: float) -> bool:
        """Take in a line; return whether it is as it has to be."""
        word = self._plain(peer, line) if self._key is None else self._proven(peer, line)
        if word is None:
            return False
        if word.startswith(handshake.STATE):  # it counts for nothing, and has no reply
            return self._board.put(peer.name, word, before)
        peer.at = at
        if word == handshake.LEAVE:
            self._forget(peer.name, peer.address)
        else:
            name = peer.name
            self._board.confirm(name, word, before)
            self._early[name], self._late[name] = max(before, self._early.get(name, before)), at
            self._names.setdefault(peer.address, set()).add(name)
        reply = handshake.STOP if self.cut_off else handshake.OK
        return self._sent(peer, peer.session.sign(reply) if peer.session else reply + b"\n", at)

    def _proven(self, peer: _Peer, line: bytes) -> bytes | None:
        """Return the word of a line; None without a valid proof."""
        if peer.session is not None:
            return peer.session.word(line)
        found = handshake.name_in(line)
        if found is None or self._key is None:
            return None
        theirs, name = found
        session = handshake.Session(node_key(self._key, name), peer.nonce, theirs, at_head=True)
        if session.word(line) is None:
            return None
        peer.session = session
        self._known(peer, name)
        return handshake.BEAT

    def _plain(self, peer: _Peer, line: bytes) -> bytes | None:
        """Return the same of a run of 0.3, whose nodes prove nothing."""
        name = line.decode(errors="replace")
        leaves = name.startswith(LEAVES.decode())
        name = name.removeprefix(LEAVES.decode())
        known = name in self._late or len(self._late) < MOST_PLAIN
        if not name or not known or not name.isprintable() or peer.name not in ("", name):
            return None
        self._known(peer, name)
        return handshake.LEAVE if leaves else handshake.BEAT

    def _known(self, peer: _Peer, name: str) -> None:
        """Take note whose connection it is: the newest of a node counts."""
        self._no_stranger(peer)
        peer.name = name
        former = self._links.get(name)
        if former is not None and former is not peer:
            self._end(former)
        self._links[name] = peer

    def _no_stranger(self, peer: _Peer) -> None:
        others = self._strangers.get(peer.address, [])
        if peer in others:
            others.remove(peer)
        if not others:
            self._strangers.pop(peer.address, None)

    def _sent(self, peer: _Peer, line: bytes, at: float) -> bool:
        """Send a line; a connection that does not take it whole is closed."""
        try:
            sent = peer.link.send(line) == len(line)
        except OSError:
            sent = False
        if not sent:
            self._close(peer, at)
        return sent

    def _forget(self, name: str, address: str) -> None:
        self._late.pop(name, None)
        self._early.pop(name, None)
        self._board.forget(name)
        self._names.get(address, set()).discard(name)

    def _close(self, peer: _Peer, at: float) -> None:
        """Close a connection.

        One without a proof counts for all nodes that ever sent one from its address, and may be a node's that is not
        known yet: whoever opened it knows that this machine answers.
        """
        if not peer.name:
            self._late.update(dict.fromkeys(self._names.get(peer.address, ()), at))
            self._since = at
        self._end(peer)

    def _end(self, peer: _Peer) -> None:
        self._no_stranger(peer)
        if self._links.get(peer.name) is peer:
            del self._links[peer.name]
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(peer.link)
        peer.link.close()
