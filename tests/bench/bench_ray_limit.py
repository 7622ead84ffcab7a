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
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

WAVE = 4
"""Raylets that are started at once: more die of Ray's own limit of 30 s on a small machine."""
TRAYS = 4
"""Raylets in a domain, and bundles in a group, while real ones are recorded."""
LIMIT_S = 480.0
"""When to start no more raylets (s)."""
TIMES = 30
STEADY_S = 30.0
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


def record(most: int) -> None:
    """Print what each call takes, at each size that was reached (ms; `cpu` here, `gcs` in the process of GCS)."""
    import ray

    from launcher.runtime import ray_api

    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the raylets end with this process
    begun, rows = time.monotonic(), []
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="rl") as folder:
        raylets = Raylets(Path(folder))
        try:
            raylets.head()
            connect(ray_api, raylets.address)
            gcs, reserved = raylets.pid_of("gcs_server"), set[str]()
            while raylets.count < most and time.monotonic() - begun < LIMIT_S:
                raylets.wave(min(WAVE, most - raylets.count))
                await_alive(ray, raylets.count)
                rows.append(sized(ray, ray_api, reserved, gcs))
                print(json.dumps(rows[-1]), flush=True)
            since, used = time.monotonic(), cpu_of(gcs)
            time.sleep(10)
            idle = 1e3 * (cpu_of(gcs) - used) / (time.monotonic() - since)
            print(json.dumps({"gcs idle, ms of CPU a second": idle}), flush=True)
            extrapolate(rows)
            print(json.dumps(actors(ray, ray_api, sorted(reserved)[:3], gcs)), flush=True)
        finally:
            ray.shutdown()
            raylets.end()


def sized(ray, ray_api, reserved: set[str], gcs: int) -> dict[str, float]:
    """Reserve a group in each whole domain that has none, and return what each call takes now."""
    nodes = [node for node in ray.nodes() if node["Alive"] and ray_api.SLOT in node["Labels"]]
    domains: dict[str, list[str]] = {}
    for node in nodes:
        domains.setdefault(node["Labels"][ray_api.DOMAIN], []).append(node["Labels"][ray_api.SLOT])
    new = {key: slots for key, slots in domains.items() if len(slots) == TRAYS and key not in reserved}
    bundles, within = [{"GPU": 1.0}] * TRAYS, {ray_api.DOMAIN: "STRICT_PACK"}
    begun, used = time.monotonic(), cpu_of(gcs)
    for key, slots in new.items():
        ray_api.reserve(key, bundles, slots, within)
    reserved |= new.keys()
    row: dict[str, float] = {"raylets": len(nodes), "groups": len(reserved)}
    row["reserve"] = 1e3 * (time.monotonic() - begun) / max(1, len(new))
    await_created(ray_api, len(reserved))
    row["created"] = 1e3 * (time.monotonic() - begun) / max(1, len(new))
    row["created gcs"] = 1e3 * (cpu_of(gcs) - used) / max(1, len(new))
    tables = ray_api.tables()
    key = min(reserved, default="none")
    for name, call in {
        "nodes": ray.nodes,
        "groups": ray_api.placement_group_table,
        "tables": ray_api.tables,
        "group": lambda: ray_api.group(key, tables.labels),
        "dead": lambda: ray_api.dead(list(tables.alive)),
        "pending_demand": ray_api.pending_demand,
        "list_named_actors": ray.util.list_named_actors,
    }.items():
        timed(row, name, call, gcs)
    return row


def actors(ray, ray_api, keys: list[str], gcs: int) -> dict[str, float]:
    """Return what an actor on each bundle of some groups takes (ms each)."""

    @ray.remote(num_cpus=0, num_gpus=1, max_restarts=0)
    class Rank:
        def ready(self) -> None:
            """Be there."""

    since, used = time.monotonic(), cpu_of(gcs)
    groups = [ray_api.get_placement_group(key) for key in keys]
    strategies = [
        ray_api.PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at)
        for group in groups
        for at in range(TRAYS)
    ]
    made = [
        Rank.options(scheduling_strategy=one, name=f"a{at}", lifetime="detached", get_if_exists=True).remote()
        for at, one in enumerate(strategies)
    ]
    asked = time.monotonic() - since
    ray.get([actor.ready.remote() for actor in made], timeout=200)
    each = {"asked": asked, "ready": time.monotonic() - since, "gcs": cpu_of(gcs) - used}
    return {"actors": len(made), **{name: 1e3 * took / len(made) for name, took in each.items()}}


def extrapolate(rows: list[dict[str, float]]) -> None:
    """Print each figure at the smallest and the largest size, and on their straight line at Ray's limit."""
    least, most = rows[0], rows[-1]
    if most["raylets"] == least["raylets"]:
        return
    print(f"ms a call: {least['raylets']:.0f} and {most['raylets']:.0f} raylets, and on their line {NODES:,}")
    for name in (name for name in least if name.endswith((" cpu", " gcs"))):
        slope = (most[name] - least[name]) / (most["raylets"] - least["raylets"])
        at_limit = most[name] + slope * (NODES - most["raylets"])
        print(f"{name:24}{least[name]:9.2f}{most[name]:9.2f}{max(at_limit, most[name]):12.1f}")


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


def await_alive(ray, wanted: int) -> None:
    """Wait until so many raylets are alive, a minute at most: on a busy machine some give up."""
    for _ in range(60):
        if sum(1 for node in ray.nodes() if node["Alive"]) > wanted:
            return
        time.sleep(1)


def await_created(ray_api, wanted: int) -> None:
    """Wait until so many groups are created."""
    begun = time.monotonic()
    while time.monotonic() - begun < 30:
        if sum(1 for row in ray_api.placement_group_table().values() if row["state"] == "CREATED") >= wanted:
            return
        time.sleep(0.005)


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


@dataclass(frozen=True)
class Cost:
    """What a call takes (ms): here and in GCS, for itself and for each node, or bundle of a group, in its answer."""

    cpu: float
    cpu_each: float
    gcs: float = 0.0
    gcs_each: float = 0.0


RECORDED = {
    "nodes": Cost(0.1, 0.055, 0.1, 0.01),
    "groups": Cost(0.5, 0.03, 0.3, 0.01),
    "group": Cost(0.9, 0.03, 0.2, 0.01),
    "dead": Cost(0.3, 0.0005, 0.05, 0.0005),
    "pending_demand": Cost(0.5, 0.02, 0.1, 0.02),
}
"""What `record` found here, on Ray 2.60."""


class Gcs:
    """A stand-in for GCS behind Ray's API: as many nodes and groups as wanted, as late as recorded.

    What Ray's own code would use of this process is burnt; the CPU of GCS is slept, one question after the other.
    """

    def __init__(self, groups: int, size: int) -> None:
        self.used = dict.fromkeys(RECORDED, 0.0)
        self.rows = [self._node(at, size) for at in range(groups * size)]
        self.groups: dict[str, dict] = {}
        self._size = size
        self._turn = threading.Lock()

    def _node(self, at: int, size: int) -> dict:
        labels = {
            "nvlaunch.io/slot": f"main-{at}",
            "nvlaunch.io/generation": "0",
            "ray.io/gpu-domain": f"d{at // size}",
        }
        return {"NodeID": f"{at:056x}", "Alive": True, "Labels": labels, "Resources": {"CPU": 1.0, "GPU": 4.0}}

    def take(self, name: str, things: int) -> None:
        """Take the time of a call whose answer has so many things."""
        cost = RECORDED[name]
        burnt, end = (cost.cpu + cost.cpu_each * things) / 1e3, 0.0
        with self._turn:
            time.sleep((cost.gcs + cost.gcs_each * things) / 1e3)
        begun = time.thread_time()
        while time.thread_time() - begun < burnt:
            end += 1.0
        self.used[name] += burnt

    def nodes(self) -> list[dict]:
        self.take("nodes", len(self.rows))
        return list(self.rows)

    def table(self, group: str | None = None) -> dict:
        if group is not None:
            return self.groups[group]
        self.take("groups", len(self.groups) * self._size)
        return dict(self.groups)

    def find(self, key: str) -> str:
        self.take("group", self._size)
        if key not in self.groups:
            raise ValueError(key)
        return key

    def reserve(self, bundles: list, *, name: str, **_: object) -> None:
        self.take("group", len(bundles))
        first = int(name[1:]) * self._size
        self.groups[name] = {
            "name": name,
            "state": "CREATED",
            "bundles": dict(enumerate(bundles)),
            "bundles_to_node_id": {at: self.rows[first + at]["NodeID"] for at in range(len(bundles))},
            "stats": {},
        }

    def check_alive(self, ids: list[str], timeout: float) -> list[bool]:
        self.take("dead", len(ids))
        return [self.rows[int(one, 16)]["Alive"] for one in ids]


def stand_in(groups: int) -> None:
    """Print what the supervisor of a run of so many groups of 16 costs, over the stand-in."""
    from launcher.runtime import ray_api, ray_tables

    size = NODES // GROUPS
    gcs = Gcs(groups, size)
    client = SimpleNamespace(check_alive=gcs.check_alive)
    worker = SimpleNamespace(global_worker=SimpleNamespace(gcs_client=client))
    ray_api.ray = SimpleNamespace(
        nodes=gcs.nodes, NodeID=SimpleNamespace(from_hex=str), _private=SimpleNamespace(worker=worker)
    )
    ray_api.placement_group_table, ray_api.get_placement_group = gcs.table, gcs.find
    ray_api.placement_group, ray_api.pending_demand = (
        gcs.reserve,
        lambda: gcs.take("pending_demand", groups * size) or [],
    )
    ray_api.dashboard = lambda: 0
    tables = ray_tables.RayTables(ray_api)
    threading.Thread(target=tables.keep, daemon=True).start()
    assert tables.fresh(60)["ok"]
    print(f"{groups * size:,} raylets, {groups} groups of {size}")
    keys, bundles = [f"g{at}" for at in range(groups)], [{"GPU": 4.0}] * size
    with ThreadPoolExecutor(64) as pool:  # as many actions as the launcher has under way
        for what, act in {
            "reserved": lambda key: (ray_api.reserve(key, bundles, [], {}), tables.group(key, 60)),
            "verified": lambda key: tables.group(key, 60),
        }.items():
            begun, used = time.monotonic(), time.process_time()
            replies = list(pool.map(act, keys))
            sent = len(json.dumps(tables.group(keys[0], 60))) * len(replies)
            took, cpu = time.monotonic() - begun, time.process_time() - used
            print(f"  all groups {what}: {took:.1f} s, {1e3 * cpu / groups:.1f} ms of CPU a group, {sent:,} bytes")
    ray_tables.SETTLE_S = ray_tables.HASTE_S = 0.0
    tables.fresh(60)
    tables.fresh(60)
    begun, used = time.monotonic(), time.process_time()
    time.sleep(STEADY_S)
    share = 100 * (time.process_time() - used) / (time.monotonic() - begun)
    begun, used = time.monotonic(), time.process_time()
    ray_api.tables()
    whole = time.process_time() - used
    print(f"  steady: {share:.0f} % of a core; all tables twice a second would be {200 * whole:.0f} %")
    gcs.rows[0] = {**gcs.rows[0], "Alive": False}
    begun = time.monotonic()
    while all(node["alive"] for node in tables.latest()["nodes"]):
        time.sleep(0.01)
    print(f"  a dead raylet is told {time.monotonic() - begun:.2f} s after GCS knows it")


if __name__ == "__main__":
    if sys.argv[1:2] == ["record"]:
        record(int(sys.argv[2]) if len(sys.argv) > 2 else 40)
    else:
        for groups in [int(word) for word in sys.argv[1:]] or [GROUPS // 10, GROUPS]:
            stand_in(groups)
