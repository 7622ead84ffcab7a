"""Pieces of sessions on one connection between the launcher's side and the stand-in machines."""

import struct
from enum import IntEnum

HEAD = struct.Struct(">IBI")
"""Number of the session, kind, length of what follows."""

CONTROL = "control"
"""The name that a test gives in place of a machine's address, to ask for faults."""


class Kind(IntEnum):
    """What a piece is."""

    HELLO = 0  # the machine's address
    OPEN = 1  # a session: the line for the login shell
    DATA = 2  # its stdin, or its stdout
    EOF = 3  # the end of its stdin
    CLOSE = 4
    ERROR = 5  # its stderr
    EXIT = 6  # its status, as text


def piece(session: int, kind: Kind, content: bytes = b"") -> bytes:
    """Return a piece as it is sent."""
    return HEAD.pack(session, kind, len(content)) + content


class Pieces:
    """Puts pieces together again."""

    def __init__(self) -> None:
        self._unread = bytearray()

    def take(self, data: bytes) -> list[tuple[int, int, bytes]]:
        """Return the pieces that are whole: session, kind and content."""
        self._unread += data
        found, at = [], 0
        while len(self._unread) - at >= HEAD.size:
            session, kind, length = HEAD.unpack_from(self._unread, at)
            end = at + HEAD.size + length
            if len(self._unread) < end:
                break
            found.append((session, kind, bytes(self._unread[at + HEAD.size : end])))
            at = end
        del self._unread[:at]
        return found
