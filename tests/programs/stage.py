"""A script on racks of hosts as somebody would start it, which loses a node; its losses are those of a calm run."""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.desk import Desk
from tests.rig import Host, Rig

SCRIPTS = Path(__file__).with_name("scripts")
CALM_S = 300.0
STEP_S = 240.0
OVER_S = 400.0
ENDED = ("succeeded", "failed", "stopped")
TOLERANCE = 2e-6
"""A loss is written with seven digits; how sums are ordered depends on the number of processes alone."""


class Program:
    """One script in a folder that all hosts share: how it runs there, and how it runs undisturbed."""

    def __init__(self, rig: Rig, folder: Path, name: str) -> None:
        self.rig, self.name = rig, name
        (folder / ".ssh").mkdir(exist_ok=True)
        self.desk = Desk(folder, rig.inventory(), HOME=str(folder))
        self.shared = rig.shared / name
        shutil.rmtree(self.shared, ignore_errors=True)
        shutil.copytree(SCRIPTS, self.shared)
        for path in (self.shared, *self.shared.rglob("*")):
            path.chmod(0o777 if path.is_dir() else 0o666)
        self.calm_folder = folder / "calm"

    def calm(self, argv: list[str], env: dict[str, str]) -> dict[int, float]:
        """Return the loss at each step of a run that nothing disturbs, started by hand on this machine."""
        shutil.copytree(SCRIPTS, self.calm_folder)
        done = subprocess.run(
            argv, cwd=self.calm_folder, env={**os.environ, **env}, capture_output=True, text=True, timeout=CALM_S
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(_losses(self.calm_folder / "losses"))

    def up(self, command: dict[str, Any], **task: Any) -> None:
        """Launch it on two nodes and a spare, and follow it no further."""
        said = {
            "name": self.name,
            "resources": {"accelerators": f"{self.rig.accelerator}:2"},
            "topology": {"nodes_per_slice": 2, "spares": 1},
            "stop_grace": 2,
            **command,
            **task,
        }
        file = self.desk.task(self.name, json.dumps(said))
        up = self.desk.run("up", str(file), "-d", "-y", "-i", str(self.desk.inventory))
        assert up.returncode == 0, up.stderr

    def holder(self, rank: int) -> Host:
        """Return the host that has a rank now."""
        ranks = self.desk.status(self.name)["ranks"]
        return self.rig.hosts[next(one["node"] for one in ranks if one["rank"] == rank)]

    def logged(self, step: int) -> None:
        """Wait until the script has logged a step."""
        file = self.shared / "losses"
        self._until(lambda: file.exists() and any(at >= step for at, _ in _losses(file)))

    def resumed(self) -> float:
        """Wait until it logs a step in its second attempt; answer how long that took (s)."""
        begin = time.monotonic()
        self._until(lambda: bool(self.desk.status(self.name)["attempt"] == 2))
        before = self.lines()
        self._until(lambda: self.lines() > before)
        return time.monotonic() - begin

    def _until(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + STEP_S
        while not holds():
            ended = self.desk.status(self.name)["state"] in ENDED
            assert not ended, self.told()
            assert time.monotonic() < end, self.told()

    def lines(self) -> int:
        """Return how many steps it has logged, repeated ones too."""
        return len(_losses(self.shared / "losses"))

    def over(self) -> dict[str, Any]:
        """Wait until the run has ended; answer its last status."""
        end = time.monotonic() + OVER_S
        while (seen := self.desk.status(self.name))["state"] not in ENDED:
            assert time.monotonic() < end, self.told()
        return seen

    def told(self) -> str:
        """Return the journal and the logs of all ranks, for the message of a test that fails."""
        logs = [self.desk.run("logs", self.name, "--rank", "all").stdout[-6000:]]
        return "\n".join([self.desk.run("events", self.name).stdout[-6000:], *logs])

    def holds(self, calm: dict[int, float]) -> None:
        """Each step was taken, and each loss, of a repeated step too, is that of the calm run."""
        found = _losses(self.shared / "losses")
        assert {step for step, _ in found} == calm.keys()
        wrong = [(step, loss, calm[step]) for step, loss in found if abs(loss - calm[step]) > TOLERANCE]
        assert not wrong, wrong[:5]

    def clear(self) -> None:
        """Take the run down, and put the power back on."""
        for host in self.rig.hosts.values():
            if not host.on:
                host.boot()
        down = self.desk.run("down", "--all", "-y")
        assert down.returncode == 0, down.stderr


def _losses(file: Path) -> list[tuple[int, float]]:
    """Return what a script has logged; a line that is only half there does not count."""
    whole = [line.split() for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
    return [(int(step), float(loss)) for step, loss in whole]
