"""What programs ask of Ray and do not get, while no GPU is in use."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ray.core.generated.autoscaler_pb2 import ClusterResourceState

SHOWN = 3
"""How many different demands are named."""

GPU = "GPU"
GROUP = "GPU_group_"
"""How Ray calls the GPUs of a placement group: `GPU_group_<id>` has all of them."""

_ID = 32 + 4
"""Characters of the id of a placement group; the resource of a single bundle has its number before that."""

Node = tuple[Mapping[str, float], Mapping[str, float]]
"""The resources of a node: all, and those that are free."""


def pending(state: "ClusterResourceState") -> list[str]:
    """Return the demands that Ray cannot place, as `2 x {GPU: 5}`; none while a GPU is in use."""
    nodes: list[Node] = [(dict(one.total_resources), dict(one.available_resources)) for one in state.node_states]
    if in_use(nodes) > 0:
        return []
    return described((*_alone(state), *_together(state)))


def in_use(nodes: Sequence[Node]) -> float:
    """Return how many GPUs programs use; those that a placement group only keeps are not in use."""
    found = 0.0
    for total, free in nodes:
        found += total.get(GPU, 0.0) - free.get(GPU, 0.0)
        for name, amount in total.items():
            if name.startswith(GROUP) and len(name) == len(GROUP) + _ID:
                found -= free.get(name, 0.0) if amount else 0.0
    return found


def described(demands: Iterable[tuple[Mapping[str, float], int]]) -> list[str]:
    """Return demands, equal ones counted together, the most first."""
    counted: Counter[str] = Counter()
    for resources, count in demands:
        named = ", ".join(f"{name}: {amount:g}" for name, amount in sorted(resources.items()) if amount)
        counted[f"{{{named}}}"] += count
    shown = [f"{count} x {words}" for words, count in counted.most_common(SHOWN)]
    return shown + ([f"and {len(counted) - SHOWN} more"] if len(counted) > SHOWN else [])


def _alone(state: Any) -> Iterable[tuple[Mapping[str, float], int]]:
    for one in state.pending_resource_requests:
        yield dict(one.request.resources_bundle), one.count


def _together(state: Any) -> Iterable[tuple[Mapping[str, float], int]]:
    for gang in state.pending_gang_resource_requests:
        for selector in gang.bundle_selectors:
            for one in selector.resource_requests:
                yield dict(one.resources_bundle), 1
