"""How long a restart in place takes with a container, beside one without, side by side in one run of this program.

`bench_container.py [TRIES]`; needs root and Docker. Two runs with real Ray, each on a node of local racks: the program
of each is killed in turn, and the time counts until it has begun again.
"""

import contextlib
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.containers.docker import Docker, rootfs
from tests.desk import Desk

INVENTORY = """
name: bench-boxes
transport: local
lease_path: {home}/lease
container_engine: docker
racks:
  r1: {{nodes: {{a1: {{address: 127.0.78.1}}, a2: {{address: 127.0.78.2}}}}}}
"""
TASK = """
name: {name}
resources: {{accelerators: GB300:4{image}}}
envs: {{SAYS: {says}}}
{mounts}
recovery: {{max_restarts: 999}}
run: |
  read -r up rest </proc/uptime
  echo "$$ $up" >>"$SAYS"
  while :; do sleep 0.1; done
"""
PATIENCE_S = 300.0
LIMIT = 1.2


def main() -> None:
    """Print the medians and their ratio; exit 1 where that is above the target."""
    tries = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    folder = Path(tempfile.mkdtemp(prefix="nvboxbench."))
    docker = Docker(folder)
    desk = Desk(folder, INVENTORY.format(home=folder), **docker.env)
    try:
        docker.start()
        docker.client("import", str(rootfs(folder / "root.tar")), "box:1")
        took: dict[str, list[float]] = {"inside": [], "outside": []}
        for name in took:
            text = TASK.format(
                name=name,
                says=folder / name,
                image=', image_id: "docker:box:1"' if name == "inside" else "",
                mounts=f"container: {{mounts: [{folder}]}}" if name == "inside" else "",
            )
            done = desk.run("up", str(desk.task(name, text)), "-y", "--detach", "-i", str(desk.inventory))
            assert done.returncode == 0, done.stderr
        for name in took:
            _begun(folder / name, 1, desk, name)
        for at in range(tries):
            for name, times in took.items():
                times.append(_again(folder / name, at + 1, desk, name))
        with_one, without = statistics.median(took["inside"]), statistics.median(took["outside"])
        ratio = with_one / without
        row = "; ".join(f"{name} {' '.join(f'{one:.2f}' for one in times)}" for name, times in took.items())
        print(
            f"restart in place: {with_one:.2f} s with a container, {without:.2f} s without, ratio {ratio:.2f} "
            f"(target {LIMIT}); {row}; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
    finally:
        with contextlib.suppress(OSError):
            desk.run("down", "--all", "-y")
        docker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(ratio > LIMIT)


def _again(says: Path, times: int, desk: Desk, name: str) -> float:
    """Kill the program that has begun so many times; return how long it is until it has begun once more (s)."""
    pid = int(_begun(says, times, desk, name).split()[0])
    begun = float(Path("/proc/uptime").read_text().split()[0])
    os.kill(pid, signal.SIGKILL)
    return float(_begun(says, times + 1, desk, name).split()[1]) - begun


def _begun(says: Path, times: int, desk: Desk, name: str) -> str:
    """Wait until the program has begun so many times; return what it wrote last."""
    deadline = time.monotonic() + PATIENCE_S
    while not says.exists() or len(lines := says.read_text().splitlines()) < times:
        if time.monotonic() > deadline:
            sys.exit(desk.run("events", name).stdout)
        time.sleep(0.02)
    return lines[times - 1]


if __name__ == "__main__":
    main()
