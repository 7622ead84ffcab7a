"""One JSON question and one JSON answer over a Unix socket; the end of the question is the end of the stream."""

import json
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

LIMIT = 256 << 20


def ask(path: Path, question: dict[str, Any], timeout: float) -> dict[str, Any]:
    """Return what the other side says; OSError (refused, timed out) or ValueError (not JSON) where it says nothing."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(timeout)
        connection.connect(str(path))
        connection.sendall(json.dumps(question).encode())
        connection.shutdown(socket.SHUT_WR)
        answer = json.loads(_read(connection))
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object")
    return answer


def serve(path: Path, reply: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Listen on a path and answer each question in a thread of its own; returns when it listens."""
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
                logging.warning("cannot accept: %s", error)
                pause.wait(0.1)
                continue
            threading.Thread(target=_serve_one, args=(connection, reply), daemon=True).start()

    threading.Thread(target=accept, name="accept", daemon=True).start()


def _serve_one(connection: socket.socket, reply: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    with connection:
        connection.settimeout(60)
        try:
            question = json.loads(_read(connection))
            try:
                answer = reply(question)
            except Exception as error:
                logging.exception("no answer to `%s`", question.get("op"))
                answer = {"ok": False, "message": f"{type(error).__name__}: {error}"}
            connection.sendall(json.dumps(answer).encode())
        except (OSError, ValueError) as error:
            logging.warning("a question was cut short: %s", error)


def _read(connection: socket.socket) -> bytes:
    parts, size = [], 0
    while part := connection.recv(1 << 16):
        parts.append(part)
        size += len(part)
        if size > LIMIT:
            raise ValueError("too long")
    return b"".join(parts)
