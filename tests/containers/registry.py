"""A registry of images on loopback: it only answers, and its tags can be moved."""

import json
import threading
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
_CONFIG = "application/vnd.docker.container.image.v1+json"
_LAYER = "application/vnd.docker.image.rootfs.diff.tar"


class Registry:
    """Images by tag: `pulls` has the tags and digests whose manifests were sent."""

    def __init__(self) -> None:
        self.tags: dict[str, str] = {}
        self.pulls: list[str] = []
        self._blobs: dict[str, tuple[str, bytes]] = {}
        registry = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                registry.answer(self)

            def do_HEAD(self) -> None:
                registry.answer(self)

            def log_message(self, *words: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def put(self, tag: str, layer: Path) -> str:
        """Give a tag an image of one layer; return its digest."""
        content = layer.read_bytes()
        config = {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Env": ["BOX=of-the-registry"]},
            "rootfs": {"type": "layers", "diff_ids": [_digest(content)]},
        }
        head = json.dumps(config).encode()
        manifest = {
            "schemaVersion": 2,
            "mediaType": _MANIFEST,
            "config": {"mediaType": _CONFIG, "size": len(head), "digest": self._keep(_CONFIG, head)},
            "layers": [{"mediaType": _LAYER, "size": len(content), "digest": self._keep(_LAYER, content)}],
        }
        self.tags[tag] = self._keep(_MANIFEST, json.dumps(manifest).encode())
        return self.tags[tag]

    def _keep(self, kind: str, content: bytes) -> str:
        self._blobs[_digest(content)] = (kind, content)
        return _digest(content)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Answer a request for a manifest or a blob of any repository."""
        kind, _, name = request.path.rpartition("/")
        digest = self.tags.get(name, name)
        found = self._blobs.get(digest, ("application/json", b"{}")) if digest in self._blobs or name == "" else None
        if found is None:
            body = json.dumps({"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}).encode()
            request.send_response(404)
            found = ("application/json", body)
        else:
            request.send_response(200)
            request.send_header("Docker-Content-Digest", digest)
        if kind.endswith("/manifests") and request.command == "GET":
            self.pulls.append(name)
        request.send_header("Docker-Distribution-Api-Version", "registry/2.0")
        request.send_header("Content-Type", found[0])
        request.send_header("Content-Length", str(len(found[1])))
        request.end_headers()
        if request.command == "GET":
            request.wfile.write(found[1])

    def close(self) -> None:
        """End it."""
        self._server.shutdown()
        self._server.server_close()


def _digest(content: bytes) -> str:
    return f"sha256:{sha256(content).hexdigest()}"
