"""Whether the server of a rank is ready: the parent of the rank asks it over HTTP, and writes down what it answers.

That is told and nothing else: a server that is not ready is not killed. One that was ready, and is so no more for as
long as the task's `hang_after`, counts as hung (`launcher/core/control/gang_failure.py`).
"""

import contextlib
import json
import re
import socket
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from . import files
from .deadline import now
from .protocol_files import ReadinessSpec, ReadyFile

if TYPE_CHECKING:
    import http.client

FILE = "ready.json"
"""The file in a rank's folder that says whether its server is ready."""

PERIOD_S = 10.0
MOST = 1 << 16
"""Bytes of an answer that are read."""

_VARIABLE = re.compile(r"\$(?:\{(\w+)\}|(\w+))", re.ASCII)


def begin(own: Path, spec: ReadinessSpec, env: Mapping[str, str], period: float = PERIOD_S) -> None:
    """Ask the server of a rank every `period` seconds, in a thread that ends with the process.

    `own` is the folder of the rank's attempt, `env` has the variables that the request may use.
    """
    threading.Thread(target=_watch, args=(own, spec, dict(env), period), daemon=True).start()


def _watch(own: Path, spec: ReadinessSpec, env: Mapping[str, str], period: float) -> None:
    state: ReadyFile | None = None
    pause = threading.Event()
    while True:
        found = following(state, ask(spec, env), now())
        if found is not state:
            with contextlib.suppress(OSError):  # a full disk: it is written with the next change
                files.write(own / FILE, found)
                state = found
        pause.wait(period)


def following(state: ReadyFile | None, wrong: str, at: float) -> ReadyFile:
    """Return the state after an answer: the same one where nothing changed.

    `wrong` says why the server is not ready, and is empty if it is; `at` is the time since boot (s).
    """
    ready = not wrong
    if state is not None and state["ready"] == ready:
        return state
    return {"ready": ready, "was": ready or (state is not None and state["was"]), "since": at, "message": wrong}


def ask(spec: ReadinessSpec, env: Mapping[str, str]) -> str:
    """Return why a server is not ready; an empty string where it is.

    It is if it answers in time, and with no error.
    """
    import http.client

    connection = http.client.HTTPConnection("127.0.0.1", spec["port"], timeout=spec["timeout"])
    over = threading.Timer(spec["timeout"], _shut, (connection,))  # each read has the time-out: all together too
    over.daemon = True
    over.start()
    try:
        body, headers = spec.get("body"), {name: expanded(text, env) for name, text in spec["headers"].items()}
        if body is not None:
            headers = {"Content-Type": "application/json", **headers}
        sent = None if body is None else expanded(body, env, quoted=True).encode()
        connection.request("GET" if body is None else "POST", expanded(spec["path"], env), body=sent, headers=headers)
        answer = connection.getresponse()
        answer.read(MOST)
        return "" if answer.status < 400 else f"HTTP {answer.status}"
    except OSError as error:
        return f"{type(error).__name__}: {error}"[:200]
    except (http.client.HTTPException, ValueError) as error:
        return _odd(error)
    finally:
        over.cancel()
        connection.close()


def _odd(error: Exception) -> str:
    """Return what is wrong with a request or an answer: messages of `http.client` quote both, secrets included."""
    return f"{type(error).__name__}: the request cannot be sent, or the answer is not HTTP"


def _shut(connection: "http.client.HTTPConnection") -> None:
    if connection.sock is not None:
        with contextlib.suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)


def expanded(text: str, env: Mapping[str, str], *, quoted: bool = False) -> str:
    """Return a text with its variables: `$NAME` and `${NAME}`; one without a value stays.

    With `quoted` they are in strings of JSON.
    """

    def value(match: "re.Match[str]") -> str:
        found = env.get(match[1] or match[2])
        if found is None:
            return match[0]
        return json.dumps(found)[1:-1] if quoted else found

    return _VARIABLE.sub(value, text)
