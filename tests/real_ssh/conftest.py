"""A rig for all tests that leave it as it was, and a login of the launcher's own: no test sees the caller's ~/.ssh."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.core.model.inventory import Access
from launcher.transport.ssh.shell import SshShell
from tests.rig import Host, Rig

ROOT = Path(__file__).parents[2]
AMPLE_S = 40.0  # seconds for what takes none, on a machine where others are at work


@pytest.fixture(scope="session")
def rig() -> Iterator[Rig]:
    """A rig of 1 x 4."""
    with Rig(1, 4, name="ssh") as made:
        yield made


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of whoever launches, empty; and no agent."""
    folder = tmp_path / "user"
    (folder / ".ssh").mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The launcher's own folder."""
    return tmp_path / "nvlaunch"


@pytest.fixture
def shell(home: Path, user: Path) -> Iterator[SshShell]:
    """A shell that knows no host yet."""
    made = SshShell(home)
    yield made
    made.close()


def access(rig: Rig, host: Host, **others: object) -> Access:
    """Return how the inventory of a rig would say that a host is reached."""
    fields: dict[str, object] = {"address": host.address, "user": rig.user, "identity_file": str(rig.key)}
    return Access(**{**fields, **others})  # type: ignore[arg-type]


def nvlaunch(home: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run a command of ours, without a terminal."""
    return subprocess.run(
        [sys.executable, "-m", "launcher.cli", *words],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(home)},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
