"""What one run at the size of Ray's own limit asks of GCS: 10,000 raylets, 625 placement groups of 16.

`python tests/bench/bench_ray_limit.py [GROUPS...]` runs the supervisor over a stand-in that answers as GCS does, as
late as `record_ray_limit.py` found with real raylets: how long it takes until all groups are reserved and verified,
what a steady second costs, and how soon a dead raylet is told. By default with a tenth of the groups, and with all.
"""

import json
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[2]))

STEADY_S = 30.0
NODES, GROUPS = 10_000, 625


@dataclass(frozen=True)
class Cost:
    """What a call takes (ms): here and in GCS, for itself and for each node, or bundle of a group, in its answer."""

    cpu: float
    cpu_each: float
    gcs: float = 0.0
    gcs_each: float = 0.0


RECORDED = {
    "nodes": Cost(0.3, 0.035, 0.0, 0.055),
    "groups": Cost(0.3, 0.036, 0.2, 0.028),
    "group": Cost(1.2, 0.005, 0.6, 0.005),
    "dead": Cost(0.3, 0.00005, 0.3, 0.00005),
    "pending_demand": Cost(0.4, 0.041, 0.2, 0.028),
}
"""What `record` found on Ray 2.60 with 4 and 40 raylets, on a machine of two cores that did much else: rather too much
than too little."""


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
    for groups in [int(word) for word in sys.argv[1:]] or [GROUPS // 10, GROUPS]:
        stand_in(groups)
