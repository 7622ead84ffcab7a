"""Who speaks on a heartbeat connection: both sides prove that they know the key of the node.

The head's agent has the run's key, and derives from it the key of each node; a node has its own alone. So no node can
speak for another, and a name that is none of the run's has no key. The head's agent greets with a nonce; the node sends
its name, a nonce of its own, and a proof over both; from then on each line carries a proof over its number and word. A
line that was recorded, changed, sent twice or made up has no valid proof on any other connection, or at any other
place.

    head   nvlaunch-heartbeat 2 NONCE
    node   NONCE NAME PROOF           is a heartbeat too
    head   ok PROOF                   or `stop`
    node   beat PROOF                 or `leave`, or `state` with a status (`own_status.py`), which has no reply

A run of 0.3 has no key: names are sent as they are there, and replies without a proof, until the run ends.
"""

import os
import socket
import time
from pathlib import Path

from .protocol_files import KEY

GREETING = b"nvlaunch-heartbeat 2 "
LINE = 1024
"""Bytes of a line, with its end: a name has 253 at most, and is sent as hexadecimal."""

LEAST_S = 0.05
"""The shortest wait for a part of a line (s)."""

OK, STOP = b"ok", b"stop"
BEAT, LEAVE, STATE = b"beat", b"leave", b"state"
_NONCE = 32
PROOF = 32
"""Characters of a proof."""


def kept(folder: Path) -> bytes | None:
    """Return the key in a run's folder; None in a run of 0.3."""
    try:
        return bytes.fromhex((folder / KEY).read_text())
    except FileNotFoundError:
        return None


def nonce() -> bytes:
    """Return a new nonce: 128 random bits, as hexadecimal."""
    return os.urandom(_NONCE // 2).hex().encode()


class Session:
    """The proofs of one connection. `ours` and `theirs` count lines in each direction."""

    def __init__(self, key: bytes, head: bytes, node: bytes, *, at_head: bool) -> None:
        self._key = _digest(key, b"session " + head + b" " + node)
        self._mine, self._other = (b"head", b"node") if at_head else (b"node", b"head")
        self._ours = self._theirs = 0

    def sign(self, word: bytes) -> bytes:
        """Return the next line with a word, and its end."""
        line = b"%s %s\n" % (word, self._proof(self._mine, self._ours, word))
        self._ours += 1
        return line

    def word(self, line: bytes) -> bytes | None:
        """Return the word of the other side's next line; None where its proof is wrong."""
        word, _, proof = line.rpartition(b" ")
        if not _is_equal(proof, self._proof(self._other, self._theirs, word)):
            return None
        self._theirs += 1
        return word

    def _proof(self, side: bytes, number: int, word: bytes) -> bytes:
        return _digest(self._key, b"%s %d %s" % (side, number, word)).hex()[:PROOF].encode()


def _digest(key: bytes, message: bytes) -> bytes:
    import hmac  # the parent of a rank imports this module, and needs no OpenSSL

    return hmac.digest(key, message, "sha256")


def _is_equal(one: bytes, other: bytes) -> bool:
    import hmac

    return hmac.compare_digest(one, other)


def greeting(own: bytes) -> bytes:
    """Return the line with which the head's agent begins."""
    return GREETING + own + b"\n"


def answered(line: bytes, key: bytes, name: str) -> tuple[Session, bytes] | None:
    """Return a node's session, and its answer to a greeting; None where that is none."""
    theirs = line.removeprefix(GREETING)
    if len(theirs) != _NONCE or len(line) != len(GREETING) + _NONCE:
        return None
    own = nonce()
    session = Session(key, theirs, own, at_head=False)
    return session, session.sign(b"%s %s" % (own, name.encode().hex().encode()))


def name_in(line: bytes) -> tuple[bytes, str] | None:
    """Return nonce and name in the answer to a greeting, neither of them proven; None where it is no answer."""
    parts = line.split(b" ")
    if len(parts) != 3 or len(parts[0]) != _NONCE:
        return None
    try:
        return parts[0], bytes.fromhex(parts[1].decode("ascii")).decode()
    except ValueError:
        return None


def read_line(link: socket.socket, limit: float) -> bytes:
    """Return a line without its end, which has to come within `limit` seconds; ConnectionError where it is none."""
    deadline, line = time.monotonic() + limit, b""
    while not line.endswith(b"\n"):
        link.settimeout(max(LEAST_S, deadline - time.monotonic()))
        part = link.recv(LINE)
        if not part or len(line) + len(part) > LINE:
            raise ConnectionError("no line")
        line += part
        if time.monotonic() > deadline + LEAST_S:
            raise TimeoutError
    return line.strip()
