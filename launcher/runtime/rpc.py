"""One JSON request and one JSON reply over a Unix socket.

The end of the stream ends the request.
"""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

LIMIT = 256 << 20


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


def serve(path: Path, reply: Callable[[dict[str, Any]], Mapping[str, object]]) -> None:
    """Listen on a path and answer each request in a thread of its own.

    Returns once it listens.
    """
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    path.unlink(missing_ok=True)
    server.bind(str(path))
    os.chmod(path, 0o600)
    server.listen(64)
    pause = threading.Event()

    def accept() -> None:
        while True:
            try:
                connection = server.accept()[0]
            except OSError as error:  # no descriptor or memory left just now: the next one may be there
                logging.warning("cannot accept a connection: %s", error)
                pause.wait(0.1)
                continue
            threading.Thread(target=_serve_one, args=(connection, reply), daemon=True).start()

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
                answer = {"ok": False, "message": f"{type(error).__name__}: {error}"}
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
