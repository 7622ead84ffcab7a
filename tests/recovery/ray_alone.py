"""Ray by itself, on the node of its head: a group in one domain, actors that Ray restarts; who answers, several times a
second, goes to a file that all hosts share."""

import contextlib
import json
import pathlib
import sys
import time

import ray
from ray.util.placement_group import placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

ASK_S = 1.0


@ray.remote(num_gpus=4, max_restarts=-1)
class Rank:
    """A rank that can be asked where it is."""

    def where(self) -> str:
        """Answer the address of its node."""
        return str(ray.util.get_node_ip_address())


def main() -> None:
    """Reserve, start, and write down who answers, until nobody wants to know."""
    address, ranks, told = sys.argv[1], int(sys.argv[2]), pathlib.Path(sys.argv[3])
    ray.init(address=address, log_to_driver=False)
    rule = {"ray.io/node-id": "STRICT_SPREAD", "ray.io/gpu-domain": "STRICT_PACK"}
    group = placement_group([{"CPU": 1, "GPU": 4}] * ranks, topology_strategy=rule)
    ray.get(group.ready(), timeout=120)
    places = [PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=at) for at in range(ranks)]
    actors = [Rank.options(num_cpus=1, scheduling_strategy=place).remote() for place in places]
    asked = [actor.where.remote() for actor in actors]
    heard: list[tuple[float, str]] = [(0.0, "")] * ranks
    while not told.with_suffix(".stop").exists():
        done, _ = ray.wait(asked, num_returns=ranks, timeout=0.2)
        for at, one in enumerate(asked):
            if one in done:
                with contextlib.suppress(ray.exceptions.RayError):  # lost, or not back yet: asked again
                    heard[at] = (time.monotonic(), ray.get(one))
                asked[at] = actors[at].where.remote()
        now = time.monotonic()
        half = told.with_suffix(".half")
        half.write_text(json.dumps([where if now - when < ASK_S else "" for when, where in heard]))
        half.replace(told)
        dead = [node["NodeID"] for node in ray.nodes() if not node["Alive"]]
        if dead:
            told.with_suffix(".dead").write_text(json.dumps(dead))
        time.sleep(0.05)


main()
