"""What is said of stores that answer, and of those that do not."""

import importlib
import socket
from pathlib import Path
from typing import Any

import pytest

from launcher.core.model.run import RunId
from launcher.transport.upload import certificates, rclone
from tests.unit.runtime import servers

bucket_commands = importlib.import_module("launcher.runtime.bucket_commands")
bucket_look = importlib.import_module("launcher.runtime.bucket_look")
store_probe = importlib.import_module("launcher.runtime.store_probe")


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def trouble(endpoint: str) -> str:
    return str(store_probe.StoreProbe({"RCLONE_CONFIG_B_ENDPOINT": endpoint}, 0.3).trouble())


def test_a_store_that_answers_whatever_it_says_is_well(tmp_path: Path) -> None:
    with servers.web() as address:
        assert trouble(address) == ""
    files = certificates.of_unit(tmp_path, RunId("run"), "127.0.0.1")
    for name, (content, _) in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    _, certificate, key = (str(tmp_path / name) for name in files)
    with servers.web(certificate, key) as address:
        assert trouble(address) == ""
        assert trouble(address.replace("https", "http")) == ""
    assert store_probe.StoreProbe({"RCLONE_CONFIG_B_TYPE": "s3"}).trouble() == ""


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_store_that_takes_connections_and_hangs_is_named(scheme: str) -> None:
    with servers.silent() as port:
        assert trouble(f"{scheme}://127.0.0.1:{port}") == (
            f"the store at 127.0.0.1:{port} takes connections and does not answer"
        )


def test_a_store_that_takes_no_connection_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert trouble(f"http://127.0.0.1:{port}") == f"the store at 127.0.0.1:{port} takes no connection"


def test_a_silent_store_is_found_before_its_bucket_is_mounted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert 2 * bucket_commands.LOOK_IDLE_S + bucket_commands.CONNECT_S < bucket_look.LOOK_S
    monkeypatch.setattr(bucket_commands, "LOOK_IDLE_S", 1)
    with servers.silent() as port:
        env = {
            "PATH": "/usr/bin:/bin",
            "RCLONE_CONFIG": "/dev/null",
            "RCLONE_CONFIG_B_TYPE": "s3",
            "RCLONE_CONFIG_B_PROVIDER": "Other",
            "RCLONE_CONFIG_B_ENDPOINT": f"http://127.0.0.1:{port}",
            "AWS_ACCESS_KEY_ID": "a",
            "AWS_SECRET_ACCESS_KEY": "b",
            "RCLONE_CONFIG_B_ENV_AUTH": "true",
        }
        spec: Any = {"remote": "b:data", "url": "s3://data", "create": False}
        said = bucket_look.why_unusable(str(rclone.here()), spec, env)
    assert said.startswith("cannot list s3://data: the store does not answer: ")
