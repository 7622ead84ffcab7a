"""That the end of a raylet is known at once: real processes, and a stand-in for `ray start --block` that looks late."""

import importlib
import os
import shutil
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

children = importlib.import_module("launcher.runtime.children")
ray_program = importlib.import_module("launcher.runtime.ray_program")

BLOCK = """
import subprocess, sys, time
subprocess.Popen([sys.argv[1], "60"])
time.sleep(60)
"""
SOON_S = 10.0


def raylets(of: int | None) -> list[int]:
    return [pid for name, pid in ray_program._begun(of) if name == "raylet"] if of and of > 0 else []


@pytest.mark.parametrize("killed", ["raylet", "block"])
def test_the_end_of_a_raylet_is_known_long_before_its_parent_looks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, killed: str
) -> None:
    raylet = tmp_path / "raylet"
    shutil.copy("/bin/sleep", raylet)
    monkeypatch.setattr(children, "TICK_S", 0.02)
    kept = children.Children(0o022)
    ray = ray_program.RayProgram(kept, tmp_path, tmp_path / "log")
    end, struck = time.monotonic() + SOON_S, list[int]()

    def tick() -> None:
        if (found := raylets(ray._pid)) and not struck:
            struck.extend(found)
            os.kill(found[0] if killed == "raylet" else ray._pid, signal.SIGKILL)
        elif ray.status()["phase"] == "failed" or time.monotonic() > end:
            kept.stopping.set()

    block = [sys.executable, "-c", BLOCK, str(raylet)]
    threading.Thread(target=ray.start, args=(block, dict(os.environ)), kwargs={"generation": 3}).start()
    kept.serve(tick)
    found = ray.status()
    if killed == "block":
        os.kill(struck[0], signal.SIGKILL)
    assert (found["phase"], found["generation"]) == ("failed", 3)
    assert found["exit_code"] == (ray_program.LOST if killed == "raylet" else 128 + signal.SIGKILL)
