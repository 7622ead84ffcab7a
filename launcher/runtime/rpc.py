"""One JSON request and one JSON reply over a Unix socket.

The end of the stream ends the request.
"""

import json
import logging
import os
import socket
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from . import node_fault

LIMIT = 256 << 20
GIVE_UP_S = 15.0
"""Seconds in which no connection could be accepted, after which a server is of no use."""


def ask(path: Path, request: Mapping[str, object], timeout: float) -> dict[str, Any]:
    """Return the reply to a request.

    OSError (refused, timed out) or ValueError (no JSON object) where there is none.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(json.dumps(request).encode())
        connection.shutdown(socket.SHUT_WR)
        reply = json.loads(_read(connection))
    if not isinstance(reply, dict):
        raise ValueError("the reply is no object")
    return reply


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
        connection.settimeout(60)
        try:
            request = json.loads(_read(connection))
            try:
                answer = reply(request)
            except Exception as error:
                logging.exception("request `%s` failed", request.get("op"))
                answer = node_fault.refusal(error, str(request.get("op")))
            connection.sendall(json.dumps(answer).encode())
        except (OSError, ValueError) as error:
            logging.warning("a request was cut short: %s", error)


def _read(connection: socket.socket) -> bytes:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > LIMIT:
            raise ValueError("too long")
    return b"".join(parts)
