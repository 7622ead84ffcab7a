"""What Ray cannot place, as the status shows it."""

import importlib

import pytest

ray_demand = importlib.import_module("launcher.runtime.ray_demand")

GROUP = "GPU_group_" + "0a" * 18
BUNDLE = "GPU_group_0_" + "0a" * 18


@pytest.mark.parametrize(
    ("total", "free", "used"),
    [
        ({"GPU": 4.0}, {"GPU": 4.0}, 0.0),
        ({"GPU": 4.0}, {}, 4.0),
        # A group keeps all four: nobody uses them.
        ({"GPU": 4.0, GROUP: 4.0, BUNDLE: 4.0}, {GROUP: 4.0, BUNDLE: 4.0}, 0.0),
        ({"GPU": 4.0, GROUP: 4.0, BUNDLE: 4.0}, {GROUP: 1.0, BUNDLE: 1.0}, 3.0),
        ({"GPU": 4.0, GROUP: 2.0, BUNDLE: 2.0}, {"GPU": 1.0, GROUP: 2.0, BUNDLE: 2.0}, 1.0),
        ({"CPU": 8.0}, {}, 0.0),
    ],
    ids=["free", "used", "kept", "used in a group", "used beside a group", "no GPUs"],
)
def test_gpus_that_a_group_only_keeps_are_not_in_use(
    total: dict[str, float], free: dict[str, float], used: float
) -> None:
    assert ray_demand.in_use([(total, free)]) == used


def test_equal_demands_are_counted_together_and_few_are_named() -> None:
    demands = [({"GPU": 5.0}, 1), ({"CPU": 1.0, "GPU": 0.0}, 7), ({"GPU": 5.0}, 1), ({"a": 1.0}, 1), ({"b": 0.5}, 1)]
    assert ray_demand.described(demands) == ["7 x {CPU: 1}", "2 x {GPU: 5}", "1 x {a: 1}", "and 1 more"]


def test_rays_own_message_is_read() -> None:
    pb = importlib.import_module("ray.core.generated.autoscaler_pb2")
    state = pb.ClusterResourceState()
    node = state.node_states.add()
    node.total_resources["GPU"] = node.available_resources["GPU"] = 4.0
    alone = state.pending_resource_requests.add()
    alone.count, alone.request.resources_bundle["CPU"] = 3, 1.0
    bundles = state.pending_gang_resource_requests.add().bundle_selectors.add().resource_requests
    for _ in range(2):
        bundles.add().resources_bundle["GPU"] = 5.0
    assert ray_demand.pending(state) == ["3 x {CPU: 1}", "2 x {GPU: 5}"]
    node.available_resources["GPU"] = 3.0
    assert ray_demand.pending(state) == []
