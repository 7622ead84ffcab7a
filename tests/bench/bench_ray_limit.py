"""What one run at the size of Ray's own limit asks of GCS: 10,000 raylets, 625 placement groups of 16, 10,000 actors.

`python tests/bench/bench_ray_limit.py record [RAYLETS]` starts real raylets without CPUs on this machine, in waves, and
records what each call of the supervisor takes, here and in the process of GCS, at several sizes; the straight line
through the smallest and the largest size is extrapolated. Without a word the supervisor runs over a stand-in that
answers as GCS does, as late as recorded, with as many nodes and groups: what it costs in a steady second, how soon it
sees a dead raylet, and how long it takes until all groups are reserved and verified.
"""

import json
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

WAVE = 6
"""Raylets that are started at once: more die of Ray's own limit of 30 s on a small machine."""
TRAYS = 4
"""Raylets in a domain, and bundles in a group, while real ones are recorded."""
LIMIT_S = 780.0
"""When to start no more raylets (s)."""
TIMES = 7
NODES, GROUPS = 10_000, 625
MARK = "NVLAUNCH_BENCH_RAY_LIMIT"


class Raylets:
    """Ray nodes on loopback addresses of this machine, ended by the mark in their environment."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._mark = uuid.uuid4().hex
        self._begun: list[subprocess.Popen[bytes]] = []
        self.address = ""
        self.count = 0

    def head(self) -> None:
        """Start a head that nothing is placed on."""
        self.address = "127.88.0.1:6790"
        self._start("127.88.0.1", "--head", "--port=6790", "--num-cpus=0", "--num-gpus=0", "--include-dashboard=false")

    def wave(self, count: int) -> None:
        """Start raylets, each in a domain of `TRAYS` with a pretended GPU."""
        for at in range(self.count, self.count + count):
            labels = f"ray.io/gpu-domain=d{at // TRAYS},nvlaunch.io/slot=main-{at},nvlaunch.io/generation=0"
            ip = f"127.88.{1 + at // 200}.{1 + at % 200}"
            self._start(ip, f"--address={self.address}", "--num-cpus=0", "--num-gpus=1", f"--labels={labels}")
        self.count += count

    def _start(self, ip: str, *argv: str) -> None:
        scratch = self._folder / ip.replace("127.88.", "").replace(".", "-")
        scratch.mkdir()
        common = ("--block", "--disable-usage-stats", "--include-log-monitor=false", "--object-store-memory=80000000")
        ports = ("--min-worker-port=0", "--max-worker-port=0")
        ray = str(Path(sys.executable).with_name("ray"))
        env = {**os.environ, MARK: self._mark, "RAY_enable_metrics_collection": "0"}
        with (scratch / "out").open("wb") as out:
            argv = (ray, "start", f"--node-ip-address={ip}", f"--temp-dir={scratch}", *common, *ports, *argv)
            self._begun.append(subprocess.Popen(argv, env=env, stdout=out, stderr=out, start_new_session=True))

    def pid_of(self, program: str) -> int:
        """Return the number of a program of the head."""
        for pid in self._ours():
            if Path(f"/proc/{pid}/comm").read_text().strip().startswith(program[:15]):
                return pid
        raise LookupError(program)

    def _ours(self) -> list[int]:
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if self._mark.encode() in told or f"--temp-dir={self._folder}".encode() in told:
                    found.append(int(entry.name))
        return found

    def end(self) -> None:
        """Kill all that was started."""
        for _ in range(3):
            for pid in self._ours():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.5)
        for one in self._begun:
            one.wait()


def cpu_of(pid: int) -> float:
    """Return the seconds of CPU that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def record(most: int) -> list[dict[str, float]]:
    """Return what each call takes, at each size that was reached (ms; `gcs` in the process of GCS)."""
    import ray
    from ray._raylet import NodeID

    from launcher.runtime import ray_api

    @ray.remote(num_cpus=0, num_gpus=1, max_restarts=0)
    class Rank:
        def ready(self) -> int:
            return os.getpid()

    begun, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rl") as folder:
        raylets = Raylets(Path(folder))
        try:
            raylets.head()
            connect(ray_api, raylets.address)
            gcs = raylets.pid_of("gcs_server")
            reserved = 0
            while raylets.count < most and time.monotonic() - begun < LIMIT_S:
                raylets.wave(min(WAVE, most - raylets.count))
                alive = await_alive(ray, raylets.count, begun)
                keys = [f"g{at}" for at in range(reserved, alive // TRAYS)]
                row: dict[str, float] = {"raylets": alive, "groups": alive // TRAYS}
                domain = {ray_api.DOMAIN: "STRICT_PACK"}
                slots = [[f"main-{at}" for at in range(TRAYS * n, TRAYS * n + TRAYS)] for n in range(reserved, 10_000)]
                todo = list(zip(keys, slots, strict=False))
                bundle = [{"GPU": 1.0}] * TRAYS
                row["reserve"] = each(lambda one: ray_api.reserve(one[0], bundle, one[1], domain), todo)
                row["created"] = await_created(ray_api, len(keys) + reserved)
                reserved += len(keys)
                row["groups"] = reserved
                node_ids = [NodeID.from_hex(node["NodeID"]) for node in ray.nodes()]
                client = ray._private.worker.global_worker.gcs_client
                for name, call in {
                    "nodes": ray.nodes,
                    "groups_table": ray_api.placement_group_table,
                    "tables": ray_api.tables,
                    "find": lambda: ray_api._find("g0"),
                    "check_alive": lambda ids=node_ids: client.check_alive(ids, timeout=5),
                    "pending_demand": ray_api.pending_demand,
                    "list_named_actors": lambda: ray.util.list_named_actors(),
                }.items():
                    timed(row, name, call, gcs)
                rows.append(row)
                print(json.dumps(row), flush=True)
            groups = [ray_api._find(f"g{at}") for at in range(min(reserved, 4))]
            since, used = time.monotonic(), cpu_of(gcs)
            strategies = [
                ray_api.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at)
                for group in groups
                for at in range(TRAYS)
            ]
            actors = [
                Rank.options(scheduling_strategy=one, name=f"a{at}", lifetime="detached", get_if_exists=True).remote()
                for at, one in enumerate(strategies)
            ]
            asked = time.monotonic() - since
            ray.get([actor.ready.remote() for actor in actors], timeout=300)
            took = time.monotonic() - since
            last = {
                "actors": len(actors),
                "asked": 1e3 * asked / len(actors),
                "ready": 1e3 * took / len(actors),
                "gcs": 1e3 * (cpu_of(gcs) - used) / len(actors),
            }
            print(json.dumps(last), flush=True)
            since, used = time.monotonic(), cpu_of(gcs)
            time.sleep(10)
            print(json.dumps({"gcs idle, % of a core": 100 * (cpu_of(gcs) - used) / (time.monotonic() - since)}))
        finally:
            raylets.end()
    return rows


def connect(ray_api, address: str) -> None:
    """Connect as the supervisor does, once the head is up."""
    for _ in range(60):
        try:
            ray_api.connect(address, "127.88.0.1")
        except (ConnectionError, RuntimeError, ValueError):
            time.sleep(1)
        else:
            return
    raise TimeoutError(address)


def await_alive(ray, wanted: int, begun: float) -> int:
    """Return how many raylets are alive, once all are or 90 s have passed."""
    for _ in range(90):
        alive = sum(1 for node in ray.nodes() if node["Alive"]) - 1
        if alive >= wanted or time.monotonic() - begun > LIMIT_S + 60:
            break
        time.sleep(1)
    return alive


def await_created(ray_api, wanted: int) -> float:
    """Return how long it takes until so many groups are created (ms)."""
    begun = time.monotonic()
    while time.monotonic() - begun < 30:
        if sum(1 for row in ray_api.placement_group_table().values() if row["state"] == "CREATED") >= wanted:
            break
        time.sleep(0.02)
    return 1e3 * (time.monotonic() - begun)


def each(call: Callable[[object], object], things: list) -> float:
    """Return how long a call takes for each thing (ms)."""
    begun = time.monotonic()
    for one in things:
        call(one)
    return 1e3 * (time.monotonic() - begun) / max(1, len(things))


def timed(row: dict[str, float], name: str, call: Callable[[], object], gcs: int) -> None:
    """Note how long a call takes, its CPU here and that of GCS (ms, the median and the means)."""
    took, before, used = [], time.process_time(), cpu_of(gcs)
    for _ in range(TIMES):
        begun = time.monotonic()
        call()
        took.append(time.monotonic() - begun)
    row[name] = round(1e3 * statistics.median(took), 3)
    row[f"{name} cpu"] = round(1e3 * (time.process_time() - before) / TIMES, 3)
    row[f"{name} gcs"] = round(1e3 * (cpu_of(gcs) - used) / TIMES, 3)


if __name__ == "__main__":
    record(int(sys.argv[2]))
