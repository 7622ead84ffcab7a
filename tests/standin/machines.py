"""The process of all machines: `python -m tests.standin.machines SOCKET`.

A connection stands for one to a machine's sshd and carries sessions, as there; each runs what its line says.
"""

import json
import re
import selectors
import socket
import sys
from typing import Any

from launcher.transport.agent import relay
from launcher.transport.ssh import command
from tests.standin.agent import StandInAgent
from tests.standin.cluster import StandInCluster
from tests.standin.frames import CONTROL, Kind, Pieces, piece

PART = 1 << 20
FACTS = b'nvlaunch-facts {"host": {"rc": 0, "out": "{}"}}\n'
HEAD_PLACE = "@head"

_MARK = re.compile(rb"printf \\0047\\0134036([0-9a-f]{16})\\0134036\\0047")
_OCTAL = re.compile(rb"\\0([0-7]{3})")
_LIMITED = re.compile(r"timeout -s KILL [0-9.]+ (.*) 2>&3 3>&-\); exit \$\?", re.DOTALL)
_WORD = re.compile(r"""(?:[^\s'"]|'[^']*'|"'")+""")
_QUOTED = re.compile(r"""'([^']*)'|"(')\"""")


class Hall:
    """All machines, by address, and the Ray of each run."""

    def __init__(self) -> None:
        self.agents: dict[tuple[str, str], StandInAgent] = {}
        self.clusters: dict[str, StandInCluster] = {}
        self.silent: set[str] = set()

    def agent(self, address: str, root: str) -> StandInAgent:
        """Return the agent of a run's folder on a machine; it may not serve."""
        found = self.agents.get((address, root))
        if found is None:
            *_, run, place = root.split("/")
            cluster = self.clusters.setdefault(run, StandInCluster())
            found = self.agents[address, root] = StandInAgent(place, cluster, head=place == HEAD_PLACE)
        return found

    def order(self, told: dict[str, Any]) -> None:
        """Do what a test asks for: raylets that end, machines that fall silent or speak again."""
        wanted = set(told["machines"])
        if told["op"] == "raylets":
            for (address, _), agent in self.agents.items():
                if address in wanted and agent.serves:
                    agent.lose_raylet()
        else:
            self.silent = wanted


class Session:
    """A program on a machine: what it reads, and how it answers."""

    def __init__(self, hall: Hall, address: str, argv: list[str]) -> None:
        self._hall = hall
        self._address = address
        self._argv = argv
        self._read = bytearray()
        self.is_relay = "-c" in argv and "Relay()" in argv[argv.index("-c") + 1]

    def data(self, content: bytes) -> bytes:
        """Take stdin; return what a relay writes at once."""
        self._read += content
        if not self.is_relay:
            return b""
        *lines, rest = bytes(self._read).split(b"\n")
        self._read = bytearray(rest)
        return b"".join(map(self._relayed, lines))

    def _relayed(self, line: bytes) -> bytes:
        asked = json.loads(line)
        answer = self._hall.agent(self._address, asked["root"]).reply(asked["question"])
        return b'{"key": %s, "answer": %s}\n' % (json.dumps(asked["key"]).encode(), answer)

    def end(self) -> bytes:
        """Return what a program writes once its stdin has ended."""
        argv = self._argv
        if self.is_relay:
            return b""
        if relay.ONE in argv:
            root = argv[argv.index(relay.ONE) + 3]
            return self._hall.agent(self._address, root).reply(json.loads(bytes(self._read)))
        if relay.FROM_MEMORY in argv:
            return b'{"ok": true}'
        if command.UNPACK in argv:
            return b""
        if "agent_start" in argv:
            return self._hall.agent(self._address, argv[argv.index("agent_start") + 1]).serve()
        if "unpack" in argv:
            return self._unpack(*argv[argv.index("unpack") + 1 :])
        return FACTS if argv[0] == "sh" else b'{"ok": true}'

    def _unpack(self, step: str, root: str, name: str, *_: str) -> bytes:
        if step == "plan":
            return b'{"ok": true, "missing": [0]}'
        self._hall.agent(self._address, root).keep_files(name)
        return b'{"ok": true}'


class Link:
    """One connection of the launcher."""

    def __init__(self, hall: Hall, pipe: socket.socket) -> None:
        self.pipe = pipe
        self._hall = hall
        self._pieces = Pieces()
        self._address = ""
        self._sessions: dict[int, Session] = {}
        self.unsent = bytearray()

    def take(self, data: bytes) -> None:
        """Take in what has come."""
        for session, kind, content in self._pieces.take(data):
            if kind == Kind.HELLO:
                self._address = content.decode()
            elif self._address == CONTROL:
                self._hall.order(json.loads(content))
                self.unsent += piece(session, Kind.EXIT, b"0")
            elif self._address not in self._hall.silent:
                self._piece(session, kind, content)

    def _piece(self, number: int, kind: int, content: bytes) -> None:
        if kind == Kind.OPEN:
            mark, argv = read_line(content)
            self._sessions[number] = Session(self._hall, self._address, argv)
            self.unsent += piece(number, Kind.DATA, b"\x1e%s\x1e" % mark.encode())
            return
        session = self._sessions.get(number)
        if session is None:
            return
        if kind == Kind.DATA:
            if said := session.data(content):
                self.unsent += piece(number, Kind.DATA, said)
        elif kind == Kind.EOF:
            del self._sessions[number]
            self.unsent += piece(number, Kind.DATA, session.end()) + piece(number, Kind.EXIT, b"0")
        else:
            del self._sessions[number]


def read_line(line: bytes) -> tuple[str, list[str]]:
    """Return the mark and the arguments in a line for the login shell (`ssh/command.py`)."""
    escaped = line.split(b'printf %b "', 1)[1]
    found = _MARK.search(escaped)
    assert found, line[:200]
    mark = found[1].decode()
    return mark, _words(escaped[found.end() :])


def _words(escaped: bytes) -> list[str]:
    """Return the arguments of the command in what follows the mark."""
    if (known := _KNOWN.get(escaped)) is not None:
        return known
    plain = _OCTAL.sub(lambda found: bytes([int(found[1], 8)]), escaped).decode()
    limited = _LIMITED.search(plain)
    text = limited[1] if limited else plain.split("exec ", 1)[1].rsplit('")', 1)[0]
    words = [_QUOTED.sub(lambda one: one[1] or one[2] or "", word) for word in _WORD.findall(text)]
    if not limited:
        _KNOWN[escaped] = words
    return words


_KNOWN: dict[bytes, list[str]] = {}
"""Lines of relays, which are all the same."""


def serve(path: str) -> None:
    """Serve all machines until killed."""
    hall, chosen = Hall(), selectors.DefaultSelector()
    door = socket.socket(socket.AF_UNIX)
    door.bind(path)
    door.listen(4096)
    door.setblocking(False)
    chosen.register(door, selectors.EVENT_READ)
    print("ready", flush=True)
    while True:
        for key, events in chosen.select():
            if key.data is None:
                pipe, _ = door.accept()
                pipe.setblocking(False)
                chosen.register(pipe, selectors.EVENT_READ, Link(hall, pipe))
            else:
                _serve_link(chosen, key.data, events)


def _serve_link(chosen: selectors.BaseSelector, link: Link, events: int) -> None:
    try:
        if events & selectors.EVENT_READ:
            part = link.pipe.recv(PART)
            if not part:
                raise ConnectionResetError
            link.take(part)
        while link.unsent:
            del link.unsent[: link.pipe.send(link.unsent)]
    except BlockingIOError:
        pass
    except OSError:
        chosen.unregister(link.pipe)
        link.pipe.close()
        return
    wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.unsent else 0)
    chosen.modify(link.pipe, wanted, link)


if __name__ == "__main__":
    serve(sys.argv[1])
