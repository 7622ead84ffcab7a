"""Where a person sits in tests of the command: a home, an inventory, and the command itself, each in a process."""

import json
import os
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher.store.status_reads import StatusReader
from launcher.store.store import Store
from tests import forked

AMPLE_S = 150.0


def files_of(path: Path) -> dict[str, bytes]:
    """The files of a report, without the run's own folder in their names."""
    with tarfile.open(path) as archive:
        return {entry.name.partition("/")[2]: archive.extractfile(entry).read() for entry in archive}  # type: ignore[union-attr]


class Desk:
    """Where a person sits: a home, an inventory, and the command."""

    def __init__(self, folder: Path, inventory: str, **env: str) -> None:
        # A shell without job control has its background ignore Ctrl-C, and all that is started there ignores it too.
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        self.folder = folder
        self.home = folder / "home"
        self.inventory = folder / "racks.yaml"
        self.inventory.write_text(inventory)
        self.env = {**os.environ, "NVLAUNCH_HOME": str(self.home), "NO_COLOR": "1", **env}

    def task(self, name: str, text: str) -> Path:
        """A task file."""
        path = self.folder / f"{name}.yaml"
        path.write_text(text)
        return path

    def gate(self, name: str) -> Path:
        """The file that ranks wait for, where launcher and nodes share a disk."""
        return self.folder / f"{name}.gate"

    def up_args(self, task: Path, *more: str) -> list[str]:
        """How to start a task."""
        gate = f"GATE={self.gate(task.stem)}"
        return ["up", str(task), "-y", "-i", str(self.inventory), "--env", gate, *more]

    def begin(self, *args: str) -> "subprocess.Popen[str]":
        """Start the command and leave it running."""
        return subprocess.Popen(
            [sys.executable, "-m", "launcher.cli", *args],
            env=self.env,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def run(self, *args: str) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end."""
        code, out, err = forked.run(args, env=self.env, folder=Path.cwd(), timeout=AMPLE_S)
        return subprocess.CompletedProcess(args, code, out, err)

    def status(self, name: str) -> dict[str, Any]:
        """What is said of a run."""
        shown = self.run("status", name, "-o", "json")
        assert shown.returncode == 0, shown.stderr
        return dict(json.loads(shown.stdout)[0])

    def until(self, name: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The status of a run as soon as it is as it should be; looked at here, not by a process each time."""
        deadline = time.monotonic() + AMPLE_S
        while not (seen := self.seen(name)) or not holds(seen):
            assert time.monotonic() < deadline, self.run("events", name).stdout
            time.sleep(0.02)
        return seen

    def seen(self, name: str) -> dict[str, Any]:
        """The status of a run, read here; empty before there is one."""
        shelf = StatusReader(self.home)
        return dict(json.loads(shelf.find(name).snapshot)) if name in shelf.names() else {}

    def controller(self, name: str) -> int:
        """The process that drives a run, as soon as there is one."""
        deadline = time.monotonic() + AMPLE_S
        while (owner := Store(self.home).find(name).owner) is None:
            assert time.monotonic() < deadline, f"nobody drives `{name}`"
            time.sleep(0.02)
        return owner.pid
