"""One JSON request and one JSON reply over a Unix socket, between processes of one user.

The end of the stream ends the request. The kernel tells both ends whose process the other is: where another user has
made a socket in our place, it is sent nothing, and another user's request is not read.
"""

import json
import logging
import os
import socket
import struct
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import node_fault

LIMIT = 64 << 20
"""Bytes of a request, or of a reply: the start of 10,000 ranks takes some 10 MiB."""

WHOLE_S = 60.0
"""Seconds in which a request has to have come, and its reply to be taken."""

GIVE_UP_S = 15.0
"""Seconds in which no connection could be accepted, after which a server is of no use."""

_PEER = struct.Struct("iII")


def ask(path: Path, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
    """Return the reply to a request.

    OSError (refused, timed out, another user's socket) or ValueError (no JSON object) where there is none.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        if user(connection) != os.geteuid():
            raise PermissionError(f"`{path}` is a socket of user {user(connection)}")
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        return _object(_read(connection))


def user(connection: socket.socket) -> int:
    """Return the id of the user whose process the other end is (SO_PEERCRED): on a client's side, who listened."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
    return int(_PEER.unpack(peer)[1])


def serve(
    path: Path,
    reply: Callable[[dict[str, Any]], Mapping[str, object]],
    give_up: Callable[[str], object] = lambda _: None,
) -> None:
    """Listen on a path and answer each request in a thread of its own.

    Returns once it listens. Where no thread more can be started, requests are answered one after the other. `give_up`
    is called with the reason once no request can be accepted any more.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path.unlink(missing_ok=True)
    server.bind(str(path))
    os.chmod(path, 0o600)
    server.listen(64)
    pause = threading.Event()

    def accept() -> None:
        failing: float | None = None
        while True:
            try:
                connection = server.accept()[0]
            except OSError as error:  # no descriptor or memory left just now: the next one may be there
                logging.warning("cannot accept a connection: %s", error)
                failing = failing or time.monotonic()
                if time.monotonic() - failing > GIVE_UP_S:
                    give_up(f"cannot accept a connection: {error}")
                    return
                pause.wait(0.1)
                continue
            failing = None
            try:
                threading.Thread(target=_serve_one, args=(connection, reply), daemon=True).start()
            except RuntimeError:  # no thread more: whoever asks next waits for this one
                _serve_one(connection, reply)

    threading.Thread(target=accept, name="accept", daemon=True).start()


def _serve_one(connection: socket.socket, reply: Callable[[dict[str, Any]], Mapping[str, object]]) -> None:
    with connection:
        connection.settimeout(WHOLE_S)
        try:
            if user(connection) not in (os.geteuid(), 0):
                raise PermissionError(f"from user {user(connection)}")
            request = _object(_read(connection))
            try:
                answer = reply(request)
            except Exception as error:
                logging.exception("request `%s` failed", request.get("op"))
                answer = node_fault.refusal(error, str(request.get("op")))
            connection.sendall(json.dumps(answer).encode())
        except (OSError, ValueError) as error:
            logging.warning("a request was cut short: %s", error)


def _object(text: bytes) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _read(connection: socket.socket) -> bytes:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > LIMIT:
            raise ValueError("too long")
    return b"".join(parts)
