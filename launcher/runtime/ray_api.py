"""What the supervisor asks of Ray. Every call to Ray's API stands here, so that its shape changes in one place."""

from typing import Any

import ray
from ray.util.placement_group import (
    PlacementGroup,
    get_placement_group,
    placement_group,
    placement_group_table,
    remove_placement_group,
)
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from .rank_actor import Holder

NAMESPACE = "nvlaunch"
NODE_ID = "ray.io/node-id"
DOMAIN = "ray.io/gpu-domain"
SLOT = "nvlaunch.io/slot"
GENERATION = "nvlaunch.io/generation"

Json = dict[str, Any]
Document = list[Any]
"""A reference to content in Ray's object store; in a list, so that who is given it need not fetch it."""


def connect(address: str, node_ip: str) -> None:
    """Become a driver of the run's cluster."""
    ray.init(
        address=address,
        namespace=NAMESPACE,
        _node_ip_address=node_ip,
        log_to_driver=False,
        configure_logging=False,
        include_dashboard=False,
    )


def tables() -> Json:
    """Return Ray's nodes by our labels, and the newest group of each name with the labels of its bundles' nodes."""
    nodes = ray.nodes()
    labels = {node["NodeID"]: node["Labels"] for node in nodes}
    groups: dict[str, Json] = {}
    for row in placement_group_table().values():
        if row["name"] not in groups or row["state"] != "REMOVED":
            groups[row["name"]] = _group(row, labels)
    return {"nodes": [_node(node) for node in nodes if SLOT in node["Labels"]], "groups": list(groups.values())}


def _node(node: Json) -> Json:
    labels = node["Labels"]
    return {
        "slot": labels[SLOT],
        "generation": int(labels[GENERATION]),
        "domain": labels.get(DOMAIN),
        "alive": bool(node["Alive"]),
        "address": node["NodeManagerAddress"],
    }


def _group(row: Json, labels: dict[str, Json]) -> Json:
    bundles = []
    for index in sorted(int(key) for key in row["bundles"]):
        at = labels.get(row["bundles_to_node_id"].get(index) or "", {})
        generation = int(at[GENERATION]) if GENERATION in at else None
        bundles.append({"index": index, "slot": at.get(SLOT), "domain": at.get(DOMAIN), "generation": generation})
    hint = row.get("stats", {}).get("scheduling_state", "")
    # PREPARED, for some milliseconds: every node has set its bundle aside, none has been told to keep it.
    state = "PENDING" if row["state"] == "PREPARED" else row["state"]
    return {"slice": row["name"], "state": state, "hint": hint, "bundles": bundles}


def reserve(key: str, bundles: list[dict[str, float]], slots: list[str], within: dict[str, str]) -> None:
    """Ask for the group of a slice, unless it is there: one bundle a slot, each on a node of its own and on the node
    labelled with its slot; `within` packs all of them on one value of a label."""
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
    """Remove the group of a slice, if it is there; its actors end with it."""
    group = _find(key)
    if group is not None:
        remove_placement_group(group)


def _find(key: str) -> PlacementGroup | None:
    try:
        return get_placement_group(key)
    except ValueError:
        return None


def share(content: bytes) -> Document:
    """Return content in Ray's object store."""
    return [ray.put(content)]


def start(ranks: list[Json], document: Document, timeout: float) -> list[str]:
    """Begin ranks, each in the actor of its slot and generation; returns what went wrong, nothing if nothing did."""
    _end_older({rank["slot"]: rank["actor"] for rank in ranks})
    groups = {key: get_placement_group(key) for key in {rank["slice"] for rank in ranks}}
    actors = [_actor(rank, groups[rank["slice"]]) for rank in ranks]
    asked = [a.start.remote(r["label"], r["spec"], r["mark"], document) for a, r in zip(actors, ranks, strict=True)]
    ray.wait(asked, num_returns=len(asked), timeout=timeout)
    return [message for rank, answer in zip(ranks, asked, strict=True) if (message := _words(rank, answer))]


def _words(rank: Json, answer: Any) -> str:
    try:
        return str(ray.get(answer, timeout=0))
    except ray.exceptions.GetTimeoutError:
        return f"rank `{rank['label']}` did not begin in time"
    except ray.exceptions.RayError as error:
        return f"rank `{rank['label']}` did not begin: {str(error).strip().splitlines()[-1]}"


def _end_older(wanted: dict[str, str]) -> None:
    """End the actors that earlier holders of these slots left: `<slot>#<generation>` is the name of an actor."""
    for name in ray.util.list_named_actors():
        slot = name.partition("#")[0]
        if slot in wanted and name != wanted[slot]:
            ray.kill(ray.get_actor(name), no_restart=True)


def _actor(rank: Json, group: PlacementGroup) -> Any:
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
    return ray.remote(Holder).options(**options).remote()
