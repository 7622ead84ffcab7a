"""Every call of the supervisor to Ray's API.

A change of that API concerns this module alone.
"""

from collections.abc import Sequence
from typing import Any

import ray
from ray._private.services import get_webui_url_from_internal_kv
from ray._private.utils import get_dashboard_dependency_error
from ray.core.generated import autoscaler_pb2
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from . import ray_demand
from .protocol import RankStart, Reply
from .protocol_ray import BundleStatus, GroupStatus, RayNodeStatus
from .rank_actor import RankActor
from .ray_tables import ClusterTables, Labels

NAMESPACE = "nvlaunch"
NODE_ID = "ray.io/node-id"
DOMAIN = "ray.io/gpu-domain"
SLOT = "nvlaunch.io/slot"
GENERATION = "nvlaunch.io/generation"

ANSWER_S = 30.0
"""How long an answer of GCS is waited for (s): the head's machine may be busy."""

Document = list[Any]
"""A reference to content in Ray's object store, in a list: an actor that is given it fetches it only where it must."""


def connect(address: str, node_ip: str) -> None:
    """Connect as a driver of the run's cluster."""
    ray.init(
        address=address,
        namespace=NAMESPACE,
        _node_ip_address=node_ip,
        log_to_driver=False,
        configure_logging=False,
        include_dashboard=False,
    )


def dashboard() -> int | None:
    """Return the port of the dashboard: None until it is known, 0 where this Python lacks what it needs."""
    if get_dashboard_dependency_error() is not None:
        return 0
    port = (get_webui_url_from_internal_kv() or "").rpartition(":")[2]
    return int(port) if port.isdecimal() else None


def tables() -> ClusterTables:
    """Return Ray's nodes that have our labels, and the placement groups.

    Of groups of one name the newest counts.
    """
    nodes = ray.nodes()
    labels = {node["NodeID"]: node["Labels"] for node in nodes}
    groups: dict[str, GroupStatus] = {}
    for row in placement_group_table().values():
        if row["name"] not in groups or row["state"] != "REMOVED":
            groups[row["name"]] = _group(row, labels)
    ours = {node["NodeID"]: _node(node) for node in nodes if SLOT in node["Labels"]}
    alive = {ray.NodeID.from_hex(node): row for node, row in ours.items() if row["alive"]}
    whole = {node["Labels"][SLOT]: _whole(node) for node in nodes if node["NodeID"] in ours and node["Alive"]}
    return ClusterTables(list(ours.values()), groups, labels, alive, whole)


def dead(raylets: Sequence[object]) -> list[object]:
    """Return those of these raylets that Ray does not hold for alive: a question that costs little for thousands."""
    client = ray._private.worker.global_worker.gcs_client  # noqa: SLF001 there is no public call
    lives = client.check_alive(list(raylets), timeout=ANSWER_S) if raylets else ()
    return [one for one, alive in zip(raylets, lives, strict=True) if not alive]


def group(key: str, labels: dict[str, Labels]) -> tuple[GroupStatus | None, bool]:
    """Return the placement group of a slice, None for none, and whether a node of it has no known `labels`."""
    found = _find(key)
    row = None if found is None else placement_group_table(found)
    if not row:
        return None, False
    return _group(row, labels), any(node and node not in labels for node in row["bundles_to_node_id"].values())


def pending_demand() -> list[str]:
    """Return what programs ask of Ray and do not get, while no GPU is in use."""
    client = ray._private.worker.global_worker.gcs_client  # noqa: SLF001 there is no public call
    reply = autoscaler_pb2.GetClusterResourceStateReply()
    reply.ParseFromString(client.get_cluster_resource_state())
    return ray_demand.pending(reply.cluster_resource_state)


def _node(node: dict[str, Any]) -> RayNodeStatus:
    labels = node["Labels"]
    return {
        "slot": labels[SLOT],
        "generation": int(labels[GENERATION]),
        "domain": labels.get(DOMAIN),
        "alive": bool(node["Alive"]),
    }


def _whole(node: dict[str, Any]) -> dict[str, float]:
    """Return all CPUs and GPUs of a node."""
    return {name: count for name, count in node["Resources"].items() if name in ("CPU", "GPU") and count}


def _group(row: dict[str, Any], labels: dict[str, Labels]) -> GroupStatus:
    bundles: list[BundleStatus] = []
    for index in sorted(int(key) for key in row["bundles"]):
        at = labels.get(row["bundles_to_node_id"].get(index) or "", {})
        generation = int(at[GENERATION]) if GENERATION in at else None
        bundles.append({"index": index, "slot": at.get(SLOT), "domain": at.get(DOMAIN), "generation": generation})
    hint = row.get("stats", {}).get("scheduling_state", "")
    # PREPARED, for some milliseconds: every node has reserved its bundle, none has committed it.
    state = "PENDING" if row["state"] == "PREPARED" else row["state"]
    return {"slice": row["name"], "state": state, "hint": hint, "bundles": bundles}


def reserve(key: str, bundles: list[dict[str, float]], slots: list[str], within: dict[str, str]) -> None:
    """Create the placement group of a slice, unless it exists.

    It has one bundle for each slot, on the node that is labelled with the slot. `within` packs all of them on one value
    of a label.
    """
    if _find(key) is not None:
        return
    # STRICT_SPREAD, never PACK: a PACK group that lost a node makes the scheduler spin and blocks all other groups
    # (ray-project/ray#65147).
    placement_group(
        bundles,
        name=key,
        lifetime="detached",
        topology_strategy={NODE_ID: "STRICT_SPREAD", **within},
        bundle_label_selector=[{SLOT: slot} for slot in slots],
    )


def unreserve(key: str) -> None:
    """Remove the placement group of a slice, if it exists; its actors end with it."""
    group = _find(key)
    if group is not None:
        remove_placement_group(group)


def _find(key: str) -> PlacementGroup | None:
    try:
        return get_placement_group(key)
    except ValueError:
        return None


def drain(slot: str, generation: int, deadline: float, reason: str) -> str:
    """Tell Ray that a raylet is drained at a time (s since the epoch); return what is wrong, if anything.

    Nothing that runs there ends for it, but Ray starts nothing more there, and whoever asks Ray sees the deadline. A
    raylet that has nothing to do ends. It cannot be taken back.
    """
    ids = [
        node["NodeID"]
        for node in ray.nodes()
        if node["Alive"] and (node["Labels"].get(SLOT), node["Labels"].get(GENERATION)) == (slot, str(generation))
    ]
    if not ids:
        return f"Ray has no raylet of `{slot}` in generation {generation}"
    client = ray._private.worker.global_worker.gcs_client  # noqa: SLF001 there is no public call
    accepted, why = client.drain_node(
        ids[0], autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION"), reason, int(deadline * 1000)
    )
    return "" if accepted else f"Ray refuses to drain `{slot}`: {why}"


def share(content: bytes) -> Document:
    """Put content into Ray's object store."""
    return [ray.put(content)]


def start(ranks: list[RankStart], document: Document, timeout: float) -> dict[str, Reply]:
    """Start ranks, each in the actor of its slot and generation.

    Return by label what is wrong with each that did not start.
    """
    _end_older({rank["slot"]: rank["actor"] for rank in ranks})
    groups = {key: get_placement_group(key) for key in {rank["slice"] for rank in ranks}}
    actors = [_actor(rank, groups[rank["slice"]]) for rank in ranks]
    asked = [a.start.remote(r["label"], r["spec"], r["mark"], document) for a, r in zip(actors, ranks, strict=True)]
    ray.wait(asked, num_returns=len(asked), timeout=timeout)
    wrong = {rank["label"]: _wrong(rank, answer) for rank, answer in zip(ranks, asked, strict=True)}
    return {label: reply for label, reply in wrong.items() if reply is not None}


def _wrong(rank: RankStart, answer: Any) -> Reply | None:
    try:
        said: str | Reply = ray.get(answer, timeout=0)
    except ray.exceptions.RayError as error:
        return {"ok": False, "message": _message(rank, error)}
    if isinstance(said, str):
        return {"ok": False, "message": said} if said else None
    return said


def _message(rank: RankStart, error: Exception) -> str:
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return f"rank `{rank['label']}` did not start in time"
    return f"rank `{rank['label']}` did not start: {str(error).strip().splitlines()[-1]}"


def _end_older(wanted: dict[str, str]) -> None:
    """Kill the actors of earlier generations of these slots.

    An actor's name is `<slot>#<generation>`.
    """
    for name in ray.util.list_named_actors():
        slot = name.partition("#")[0]
        if slot in wanted and name != wanted[slot]:
            ray.kill(ray.get_actor(name), no_restart=True)


def _actor(rank: RankStart, group: PlacementGroup) -> Any:
    strategy = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank["index"])
    options = {
        "name": rank["actor"],
        "lifetime": "detached",
        "get_if_exists": True,
        "max_restarts": 0,
        "scheduling_strategy": strategy,
        "num_cpus": rank["bundle"].get("CPU", 0),
        "num_gpus": rank["bundle"].get("GPU", 0),
    }
    return ray.remote(RankActor).options(**options).remote()
