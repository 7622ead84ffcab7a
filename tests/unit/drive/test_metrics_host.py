"""Whom metrics on the loopback address are served to."""

import http.client
from collections.abc import Iterator
from pathlib import Path
from wsgiref.simple_server import WSGIServer

import pytest

from launcher.drive.metrics import serve


@pytest.fixture
def server(tmp_path: Path) -> Iterator[WSGIServer]:
    made = serve(tmp_path / "home", "127.0.0.1", 0)
    yield made
    made.shutdown()
    made.server_close()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:PORT", 200),
        ("127.0.0.1", 200),
        ("localhost:PORT", 200),
        ("LOCALHOST", 200),
        ("[::1]:PORT", 200),
        ("10.0.0.5:PORT", 200),
        ("evil.example:PORT", 421),
        ("evil.example", 421),
        ("127.0.0.1.evil.example:PORT", 421),
        ("localhost.evil.example", 421),
        ("localhost@evil.example", 421),
        ("[", 421),
        ("", 421),
    ],
)
def test_a_page_under_another_name_gets_no_metrics(server: WSGIServer, host: str, status: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.putrequest("GET", "/metrics", skip_host=True)
    connection.putheader("Host", host.replace("PORT", str(server.server_port)))
    connection.endheaders()
    answer = connection.getresponse()
    assert answer.status == status
    assert (b"nvlaunch_store_readable" in answer.read()) is (status == 200)
    connection.close()
