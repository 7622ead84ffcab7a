"""Servers on loopback for tests of what asks stores: one of files, and one that takes connections and says nothing."""

import http.server
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Web(http.server.BaseHTTPRequestHandler):
    """`/ok` and what a hostile or broken server does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        name = self.path.strip("/")
        if name == "ok":
            self._send(b"content")
        elif name in ("moved", "loop"):
            self.send_response(302)
            self.send_header("Location", "/ok" if name == "moved" else "/loop")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif name == "short":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"x" * 10)
            self.close_connection = True
        elif name == "endless":
            self.send_response(200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"10000\r\n" + b"x" * 65536 + b"\r\n")
            except OSError:
                return
        else:
            self.send_error(404)

    def do_HEAD(self) -> None:
        self.do_GET()

    def _send(self, content: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@contextmanager
def web(certificate: str = "", key: str = "") -> Iterator[str]:
    """Serve over http, or https with a certificate; the address."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Web)
    if certificate:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"{'https' if certificate else 'http'}://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()


@contextmanager
def silent() -> Iterator[int]:
    """Take connections and say nothing; the port."""
    with socket.create_server(("127.0.0.1", 0)) as listening:  # the kernel takes them
        yield int(listening.getsockname()[1])
