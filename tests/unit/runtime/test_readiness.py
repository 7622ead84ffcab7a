"""What the parent of a rank asks its server, and what it makes of the answers."""

import json
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from launcher.runtime import files, ranks, readiness
from launcher.runtime.protocol_files import ReadinessSpec, ReadyFile


class Served(HTTPServer):
    """A server whose answer can be set; it keeps what it was asked."""

    code = 200

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str, str, str | None]] = []


class _Handler(BaseHTTPRequestHandler):
    server: Served

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        self.server.asked.append((self.command, self.path, body, self.headers.get("Authorization")))
        self.send_response(self.server.code)
        self.end_headers()

    do_POST = do_GET  # noqa: N815  the name is that of http.server

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def served() -> Iterator[Served]:
    server = Served()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def spec(port: int, timeout: float = 5.0) -> ReadinessSpec:
    return {"path": "/v1/$WHAT", "port": port, "timeout": timeout, "headers": {"Authorization": "Bearer ${TOKEN}"}}


def test_a_server_is_asked_with_the_variables_of_the_rank(served: Served) -> None:
    env = {"WHAT": "models", "TOKEN": "secret", "MODEL": 'a"b'}
    assert readiness.ask(spec(served.server_port), env) == ""
    posted: ReadinessSpec = {**spec(served.server_port), "body": '{"model": "$MODEL", "other": "$NOSUCH"}'}
    assert readiness.ask(posted, env) == ""
    (got, post) = served.asked
    assert got == ("GET", "/v1/models", "", "Bearer secret")
    assert post[0] == "POST"
    assert json.loads(post[2]) == {"model": 'a"b', "other": "$NOSUCH"}


def test_errors_silence_and_a_closed_port_are_not_ready(served: Served) -> None:
    served.code = 503
    assert readiness.ask(spec(served.server_port), {}) == "HTTP 503"
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        assert readiness.ask(spec(silent.getsockname()[1], 0.05), {})
        port = silent.getsockname()[1]
    assert "refused" in readiness.ask(spec(port), {})


@pytest.mark.parametrize(("name", "secret"), [("TOKEN", "hush\r\nb: c"), ("WHAT", "hush\n")], ids=["header", "path"])
def test_a_request_that_cannot_be_sent_is_told_without_its_secrets(served: Served, name: str, secret: str) -> None:
    message = readiness.ask(spec(served.server_port), {name: secret})
    assert "cannot be sent" in message
    assert "hush" not in message


def test_only_a_server_that_was_ready_counts_as_lost() -> None:
    begun = readiness.following(None, "HTTP 503", 1.0)
    assert begun == ReadyFile(ready=False, was=False, since=1.0, message="HTTP 503")
    assert readiness.following(begun, "refused", 2.0) is begun
    up = readiness.following(begun, "", 3.0)
    assert readiness.following(up, "timed out", 9.0) == ReadyFile(ready=False, was=True, since=9.0, message="timed out")


def test_a_rank_reports_for_how_long_its_server_is_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = tmp_path / "ranks" / "main-0" / "1"
    own.mkdir(parents=True)
    files.write(own / "state.json", {"pid": 1, "start": 0, "member": "main/0", "gang": "run", "attempt": 1})
    monkeypatch.setattr(ranks, "alive", lambda _: True)
    monkeypatch.setattr(ranks, "now", lambda: 100.0)

    def told() -> dict[str, Any]:
        (row,) = ranks.statuses(tmp_path, ranks.QuietTimes(), {})
        return {name: value for name, value in row.items() if name in ("ready", "unready")}

    assert told() == {}
    files.write(own / "ready.json", ReadyFile(ready=False, was=False, since=10.0, message=""))
    assert told() == {"ready": False}
    files.write(own / "ready.json", ReadyFile(ready=True, was=True, since=20.0, message=""))
    assert told() == {"ready": True}
    files.write(own / "ready.json", ReadyFile(ready=False, was=True, since=70.0, message=""))
    assert told() == {"ready": False, "unready": 30.0}
