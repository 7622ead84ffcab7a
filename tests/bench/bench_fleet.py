"""How long `up` takes until 512 imaginary GPUs run: from its start to the first `status` that says so.

Run by `make bench`; prints, asserts nothing. The two processes' own start is measured beside it and taken off.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
TASK, FLEET = ROOT / "examples/vla-8x64.yaml", ROOT / "examples/fleet-9xnvl72.yaml"
NVLAUNCH = [sys.executable, "-m", "launcher.cli"]


def once() -> float:
    """Seconds from the start of `up` to the end of the first `status` in which every rank runs."""
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "NVLAUNCH_HOME": home}
        begun = time.perf_counter()
        subprocess.run([*NVLAUNCH, "up", "-y", "-d", TASK, "-i", FLEET], env=env, check=True, capture_output=True)
        while True:
            shown = subprocess.run([*NVLAUNCH, "status", "-o", "json"], env=env, check=True, capture_output=True)
            (run,) = json.loads(shown.stdout)
            running = sum(rank["state"] == "running" for rank in run["ranks"])
            if running == 128:
                took = time.perf_counter() - begun
                break
        subprocess.run([*NVLAUNCH, "down", "-y", "--all"], env=env, check=True, capture_output=True)
    return took


def start_of_two() -> float:
    """Seconds that the two processes need to start: `up` and `status`, doing nothing."""
    begun = time.perf_counter()
    for command in ("up", "status"):
        subprocess.run([*NVLAUNCH, command, "--help"], check=True, capture_output=True)
    return time.perf_counter() - begun


if __name__ == "__main__":
    whole = [once() for _ in range(3)]
    start = [start_of_two() for _ in range(3)]
    net = statistics.median(whole) - statistics.median(start)
    print("512 imaginary GPUs, 8 slices x 64, until `status` says that all 128 ranks run (median of 3)")
    print(f"  whole {statistics.median(whole):.2f} s, start of two processes {statistics.median(start):.2f} s")
    print(f"  besides: {net:.2f} s (target 2 s)")
