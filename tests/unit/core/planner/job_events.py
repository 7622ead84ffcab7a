"""One job played event by event: faults of each node, restarts, checkpoints. The reference for the formulas."""

import heapq
from random import Random

DAY_S = 86_400.0


def simulated_goodput(
    nodes: int,
    per_node_day: float,
    restart_s: float,
    interval_s: float,
    write_s: float = 0.0,
    *,
    faults: int = 4_000,
    seed: int = 1,
) -> float:
    """Return the share of time that was kept, over a run with so many faults.

    Each node has a clock of its own that runs while the job does. The job loses what is after its last checkpoint.
    """
    random = Random(seed)
    mean = DAY_S / per_node_day
    due = [random.expovariate(1 / mean) for _ in range(nodes)]
    heapq.heapify(due)
    ran = kept = down = 0.0  # `ran` is the time of the nodes' clocks
    started = 0.0
    for _ in range(faults):
        ran = heapq.heappop(due)
        kept += (ran - started) // (interval_s + write_s) * interval_s
        down += restart_s
        started = ran
        heapq.heappush(due, ran + random.expovariate(1 / mean))
    return kept / (ran + down)
