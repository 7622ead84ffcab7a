"""Copies by the real rclone from servers on loopback: what fails, and what is said of it."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from launcher.core.model.run import RunId
from launcher.transport.upload import certificates, rclone
from tests.unit.runtime import servers

bucket_copy = importlib.import_module("launcher.runtime.bucket_copy")
protocol_rclone = importlib.import_module("launcher.runtime.protocol_rclone")


class Disk(NamedTuple):
    """What a disk has."""

    total: int
    used: int
    free: int


def fetch(url: str, to: Path, **env: str) -> list[str]:
    """Fetch a file as a node does; what was shown."""
    shown: list[str] = []
    spec: Any = {"web": True, "remote": url, "to": str(to)}
    given = {"PATH": "/usr/bin:/bin", "RCLONE_CONFIG": "/dev/null", "HOME": str(to.parent), **env}
    bucket_copy.copy(str(rclone.here()), spec, str(to), given, 0o022, lambda *_: None, shown.append)
    return shown


@pytest.fixture(scope="module")
def web() -> Iterator[str]:
    with servers.web() as address:
        yield address


def test_a_file_is_fetched_also_from_where_it_has_moved(web: str, tmp_path: Path) -> None:
    for name in ("ok", "moved"):
        assert fetch(f"{web}/{name}", tmp_path / "new" / name) == []
        assert (tmp_path / "new" / name).read_text() == "content"


@pytest.mark.parametrize(
    ("name", "said"), [("none", "404 Not Found"), ("loop", "stopped after 10 redirects"), ("short", "unexpected EOF")]
)
def test_what_cannot_be_fetched_is_named_and_leaves_no_file(web: str, tmp_path: Path, name: str, said: str) -> None:
    with pytest.raises(protocol_rclone.CopyError, match=said):
        fetch(f"{web}/{name}", tmp_path / "file")
    assert list(tmp_path.glob("file*")) == []


def test_a_body_without_end_does_not_fill_the_disk(web: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket_copy.shutil, "disk_usage", lambda _: Disk(10**9, 0, 20_000_000))
    with pytest.raises(protocol_rclone.CopyError, match=r"it does not fit: 20\.0 MB are free"):
        fetch(f"{web}/endless", tmp_path / "file")
    assert list(tmp_path.glob("file*")) == []


def test_the_certificate_of_a_server_has_to_be_known(tmp_path: Path) -> None:
    files = certificates.of_unit(tmp_path, RunId("run"), "127.0.0.1")
    for name, (content, _) in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(content)
    authority, certificate, key = (str(tmp_path / name) for name in files)
    with servers.web(certificate, key) as address:
        assert address.startswith("https://")
        with pytest.raises(protocol_rclone.CopyError, match="certificate signed by unknown authority"):
            fetch(f"{address}/ok", tmp_path / "file")
        assert not (tmp_path / "file").exists()
        fetch(f"{address}/ok", tmp_path / "file", SSL_CERT_FILE=authority)
    assert (tmp_path / "file").read_text() == "content"


def _stats(**numbers: object) -> str:
    return json.dumps({"level": "notice", "msg": "", "stats": {"totalTransfers": 2, "totalBytes": 2000, **numbers}})


def test_a_copy_that_stands_still_is_said_and_then_given_up() -> None:
    now, told = [0.0], list[tuple[int, int, str]]()
    log = protocol_rclone.CopyLog(lambda *said: told.append(said), lambda _: None, lambda: now[0])
    for moment, count in ((0.0, 10), (2.0, 1000), (20.0, 1000), (40.0, 1000), (200.0, 1000)):
        now[0] = moment
        log.read(_stats(transfers=1, bytes=count))
    assert told[1:] == [
        (1000, 2000, ""),
        (1000, 2000, ""),
        (1000, 2000, "; nothing new for 30 s"),
        (1000, 2000, "; nothing new for 3 min"),
    ]
    now[0] = 500.0
    log.read(_stats(transfers=1, bytes=1000, checking=["large"]))
    now[0] = 900.0
    log.read(_stats(transfers=1, bytes=1000))
    now[0] = 1100.0
    with pytest.raises(protocol_rclone.CopyError, match="nothing has been copied for 600 s"):
        log.read(_stats(transfers=1, bytes=1000))


def test_of_many_errors_the_first_are_shown_and_the_last_is_the_reason() -> None:
    shown: list[str] = []
    log = protocol_rclone.CopyLog(lambda *_: None, shown.append)
    for number in range(1000):
        log.read(json.dumps({"level": "error", "object": f"f{number}", "msg": "x" * 1000}))
    log.read("[" * 100_000)
    assert len(shown) == protocol_rclone.SHOWN + 1
    assert shown[0].startswith("f0: xxx")
    assert (len(shown[0]), shown[-1]) == (protocol_rclone.LINE, "further messages are not shown")
    log.read(_stats(lastError="no such bucket"))
    assert log.last == "no such bucket"
