"""`nvlaunch up` against `ray up` (provider local, autoscaler v1) on the same hosts in one run, to all nodes alive.

`python tests/bench/bench_ray_up.py [NODES] [--events]`; needs root, sshd and rsync, and Ray on this Python. Ours begins
to reserve placement groups when Ray has all nodes; where every rank runs is told beside it. The commands of `ray up`
are those of Ray's own example for machines of one's own (python/ray/autoscaler/local/example-full.yaml), without a
setup; autoscaler v2 has no local provider, so v1 is asked for. All hosts share this machine's cores: the second figure
is what they computed until then.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.desk import Desk
from tests.rig import Host, Rig
from tests.rig.errors import RigError
from tests.rig.machine import require

PATIENCE_S = 900.0
GCS = 6379
TASK = """
name: bench
resources: {{accelerators: GB300:4}}
topology: {{slices: 1, nodes_per_slice: {nodes}}}
stop_grace: 1
run: sleep 3600
"""
ALIVE = """
import sys, time
from ray._raylet import GcsClient
gcs = GcsClient(address=sys.argv[1])
while sum(info.state == 0 for info in gcs.get_all_node_info(timeout=30).values()) < int(sys.argv[2]):
    time.sleep(0.2)
"""


class Meter:
    """What the processes of all hosts have computed, noted twice a second."""

    def __init__(self, rig: Rig) -> None:
        self._spaces = {Path(f"/proc/{host.pid}/ns/pid").readlink() for host in rig.hosts.values()}
        self._notes = [self._note()]
        threading.Thread(target=self._go_on, daemon=True).start()

    def _go_on(self) -> None:
        while True:
            time.sleep(0.5)
            self._notes.append(self._note())

    def _note(self) -> tuple[float, float]:
        ticks = sum(_ticks(process, self._spaces) for process in Path("/proc").glob("[0-9]*"))
        return time.time(), ticks / os.sysconf("SC_CLK_TCK")

    def between(self, begin: float, end: float) -> float:
        """Return the seconds of CPU between two times of day."""
        first, last = (min(self._notes, key=lambda note: abs(note[0] - at)) for at in (begin, end))
        return last[1] - first[1]


def _ticks(process: Path, spaces: set[Path]) -> int:
    """Return what a process of these hosts, and all that it has reaped, have computed."""
    try:
        if (process / "ns/pid").readlink() not in spaces:
            return 0
        fields = (process / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(map(int, fields[11:15]))


def ours(rig: Rig, folder: Path) -> tuple[float, float]:
    """Return how long `nvlaunch up` takes until Ray has all nodes, and until every rank runs (s)."""
    desk = Desk(folder, rig.inventory(), HOME=str(folder))
    task = desk.task("bench", TASK.format(nodes=len(rig.hosts)))
    begun, at = time.monotonic(), time.time()
    done = desk.run("up", str(task), "-y", "-d", "-i", str(desk.inventory))
    assert done.returncode == 0, done.stderr
    seen = desk.until("bench", lambda seen: seen["state"] in ("running", "failed"))
    took = time.monotonic() - begun
    assert seen["state"] == "running", desk.run("events", "bench").stdout
    events = json.loads(desk.run("events", "bench", "-o", "json").stdout)
    alive = next(event["at"] for event in events if event["kind"] == "intent" and "reserve:" in event["subject"])
    if "--events" in sys.argv:
        for event in events:
            print(f"    {event['at'] - at:6.1f} {event['kind']} {event['subject']} {event['words'][:90]}")
    assert desk.run("down", "bench", "-y").returncode == 0
    return alive - at, took


def theirs(rig: Rig, folder: Path) -> float:
    """Return how long `ray up` takes until Ray has all nodes (s)."""
    head, *workers = rig.hosts.values()
    ray = str(Path(sys.executable).with_name("ray"))
    config = folder / "cluster.json"
    config.write_text(json.dumps(cluster(rig, ray, head, workers)))
    env = {**os.environ, "HOME": str(folder), "PATH": f"{Path(ray).parent}:{os.environ['PATH']}", "TERM": "dumb"}
    begun = time.monotonic()
    up = subprocess.run(
        [ray, "up", "-y", "--no-config-cache", str(config)],
        env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_S,
    )  # fmt: skip
    assert up.returncode == 0, f"{up.stdout[-2000:]}\n{up.stderr[-2000:]}"
    head.run(
        [sys.executable, "-c", ALIVE, f"{head.address}:{GCS}", str(len(rig.hosts))], user=rig.user, timeout=PATIENCE_S
    )
    took = time.monotonic() - begun
    for host in rig.hosts.values():
        host.run([ray, "stop", "--force"], user=rig.user, check=False, timeout=120)
    return took


def cluster(rig: Rig, ray: str, head: Host, workers: list[Host]) -> dict[str, object]:
    """Return a configuration as Ray's example for machines of one's own has it, without anything to set up."""
    return {
        "cluster_name": "bench",
        "provider": {"type": "local", "head_ip": head.address, "worker_ips": [host.address for host in workers]},
        "auth": {"ssh_user": rig.user, "ssh_private_key": str(rig.key)},
        "min_workers": len(workers),
        "max_workers": len(workers),
        "idle_timeout_minutes": 60,
        "head_start_ray_commands": [
            f"{ray} stop",
            (
                f"ulimit -c unlimited && RAY_enable_autoscaler_v2=0 {ray} start --head --port={GCS} "
                f"--node-ip-address={head.address} --autoscaling-config=~/ray_bootstrap_config.yaml"
            ),
        ],
        "worker_start_ray_commands": [f"{ray} stop", f"{ray} start --address=$RAY_HEAD_IP:{GCS}"],
    }


def main() -> None:
    """Print both and their ratio."""
    try:
        require()
    except RigError as error:
        print(f"`ray up` is not measured: {error}")
        return
    if shutil.which("rsync") is None:
        print("`ray up` is not measured: it needs rsync on all hosts, and this machine has none")
        return
    nodes = next((int(word) for word in sys.argv[1:] if word.isdigit()), 8)
    with Rig(1, nodes, name="rayup", python=sys.executable) as rig, tempfile.TemporaryDirectory() as folder:
        Path(folder, ".ssh").mkdir()
        meter, begun = Meter(rig), time.time()
        mine, ranks = ours(rig, Path(folder))
        cpu = meter.between(begun, begun + mine)
        print(
            f"nvlaunch up, all nodes alive{mine:8.1f} s, {cpu:5.1f} s CPU ({ranks:.1f} s until every rank runs)",
            flush=True,
        )
        begun = time.time()
        other = theirs(rig, Path(folder))
        cpu = meter.between(begun, begun + other)
        print(f"ray up, all nodes alive     {other:8.1f} s, {cpu:5.1f} s CPU\nray up / nvlaunch up: {other / mine:.2f}")


if __name__ == "__main__":
    main()
