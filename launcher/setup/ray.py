"""The arguments, labels and environment of Ray heads and raylets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, Node
from launcher.core.model.placement import Slice
from launcher.core.model.run import Member, Run, Slot
from launcher.core.model.task import Group
from launcher.setup.ports import Ports

DOMAIN = "ray.io/gpu-domain"
SLOT = "nvlaunch.io/slot"
GENERATION = "nvlaunch.io/generation"

FOLDER = "@folder@"
"""What the agent replaces by the run's folder: only the node knows where a login's home is."""

TLS_CA, TLS_CERTIFICATE, TLS_KEY = "tls/ca.pem", "tls/cert.pem", "tls/key.pem"
"""The files of `ray_tls` below the run's folder."""

OBJECT_STORE_LOCAL = 80_000_000
"""Bytes of object store on a node that shares its machine; Ray takes no less than 75 MB."""

CPUS_LOCAL = 16
"""CPUs that a driver finds on a node that shares its machine: pretended, as its GPUs are."""

OPTIONS = ("--block", "--disable-usage-stats", "--include-log-monitor=false")


@dataclass(frozen=True, slots=True, kw_only=True)
class At:
    """Where a Ray node runs: address, ports, `--temp-dir`.

    `shared`: it shares its machine with other nodes.
    """

    address: str
    ports: Ports
    temp_dir: str
    shared: bool


def head_argv(at: At, *, dashboard: bool = False) -> tuple[str, ...]:
    """Return the arguments of a head: a Ray node that nothing is placed on.

    A dashboard is reached through SSH alone. It asks for the run's token all the same: others may log in there, too.
    """
    ports = at.ports
    return (
        "start",
        "--head",
        *OPTIONS,
        f"--include-dashboard={str(dashboard).lower()}",
        "--no-monitor",  # no autoscaler: a run has the nodes that it was given
        f"--port={ports.gcs}",
        f"--dashboard-port={ports.dashboard}",
        "--dashboard-host=127.0.0.1",
        "--num-cpus=0",
        "--num-gpus=0",
        *_node_argv(at),
    )


def slot_argv(
    at: At, head: str, node: Node, labels: Mapping[str, str], *, driven: bool, groups: int = 1
) -> tuple[str, ...]:
    """Return the arguments of a slot's raylet.

    `head` is `address:port`, `groups` how many may have a member there. A bundle of ours takes one CPU, because what a
    rank really uses is not Ray's to count. What a driver makes is, and its output goes to the driver.
    """
    ours = ("--include-log-monitor=false", f"--num-cpus={groups}")
    pretended = (f"--num-cpus={CPUS_LOCAL}",) if at.shared else ()
    return (
        "start",
        f"--address={head}",
        "--block",
        "--disable-usage-stats",
        *(pretended if driven else ours),
        f"--num-gpus={node.gpus}",
        "--labels=" + ",".join(f"{key}={value}" for key, value in labels.items()),
        *_node_argv(at),
    )


def _node_argv(at: At) -> tuple[str, ...]:
    ports = at.ports
    return (
        f"--node-ip-address={at.address}",
        f"--temp-dir={at.temp_dir}",
        f"--node-manager-port={ports.node_manager}",
        f"--object-manager-port={ports.object_manager}",
        f"--metrics-export-port={ports.metrics}",
        f"--runtime-env-agent-port={ports.runtime_env_agent}",
        f"--dashboard-agent-listen-port={ports.agent_http}",
        f"--dashboard-agent-grpc-port={ports.agent_grpc}",
        f"--min-worker-port={ports.workers[0]}",
        f"--max-worker-port={ports.workers[1]}",
        *((f"--object-store-memory={OBJECT_STORE_LOCAL}",) if at.shared else ()),
    )


def labels(levels: Sequence[str], node: Node, slot: Slot, member: Member) -> dict[str, str]:
    """Return the labels of a slot's raylet on a node.

    Its place at each level, its domain, slot and generation.
    """
    return {**place_labels(node, levels), SLOT: slot.label(member), GENERATION: str(slot.generation)}


def place_labels(node: Node, levels: Sequence[str]) -> dict[str, str]:
    """Return the labels of a node's location.

    Its place at each level, and its NVLink domain where that is known.
    """
    places = {f"nvlaunch.io/{level}": value for level in levels if (value := node.at(level))}
    return {**places, DOMAIN: node.domain} if node.domain else places


def within(run: Run, part: Slice) -> dict[str, str]:
    """Return the label on which Ray packs a slice.

    The domain for a rack, the level's own for one above, else none.
    """
    level = run.group(part.group).topology.within
    if level in (ANY_LEVEL, NODE_LEVEL):
        return {}
    if level == RACK_LEVEL:
        return {DOMAIN: "STRICT_PACK"} if part.domain else {f"nvlaunch.io/{RACK_LEVEL}": "STRICT_PACK"}
    return {f"nvlaunch.io/{level}": "STRICT_PACK"}


def bundle(group: Group) -> dict[str, float]:
    """Return the resources of a slot's bundle.

    A driver's has a CPU for a task on each GPU.
    """
    cpus = max(1, group.gpus) if group.driver is not None else 1
    return {"CPU": float(cpus), **({"GPU": float(group.gpus)} if group.gpus else {})}


def environment(*, head: bool, tls: bool) -> dict[str, str]:
    """Return the variables of every Ray process of a run.

    With `tls` each of them shows a certificate of the run, and talks to nobody without one. The agent adds others.
    Health checks: a killed raylet is noticed in about 3 s, silence in 17 to 18 (threshold x (period + timeout)). Ten
    seconds of it kill nothing: TCP sends what it lost again after 12.6 s, and a check that was lost first fails as the
    last of three after 17. With 14 s a raylet was dropped for ten seconds of silence, on busy hosts. Keepalive is equal
    on head and nodes, so that silence cannot freeze the placement queue; it closes a silent connection after 15 s, and
    then every check fails at once: with 8 s, nodes that were cut off for ten were declared dead. Ray starts its workers
    at nice 15 and as the first ones to be killed when memory is short (1000); a rank is one of their children, and has
    to run as a login runs it.
    """
    common = {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": f"{FOLDER}/token",
        "RAY_health_check_initial_delay_ms": "1000",
        "RAY_health_check_period_ms": "1000",
        "RAY_health_check_timeout_ms": "5000",
        "RAY_health_check_failure_threshold": "3",
        "RAY_grpc_client_keepalive_time_ms": "10000",
        "RAY_grpc_client_keepalive_timeout_ms": "5000",
        # A head may be away for ten minutes and come back to raylets that run on; 60 s is Ray's default.
        "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
        # Without these two, `ray start` at a head that is gone blocks for 821 s.
        "RAY_gcs_server_port_wait_time_s": "2",
        "RAY_py_gcs_connect_timeout_s": "3",
        "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "1",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_grpc_enable_http_proxy": "0",
        "RAY_worker_niceness": "0",
        "RAY_worker_oom_score_adjustment": "0",
    }
    storage = {"RAY_gcs_storage": "rocksdb", "RAY_gcs_storage_path": f"{FOLDER}/gcs"}
    encrypted = {
        "RAY_USE_TLS": "1",
        "RAY_TLS_CA_CERT": f"{FOLDER}/{TLS_CA}",
        "RAY_TLS_SERVER_CERT": f"{FOLDER}/{TLS_CERTIFICATE}",
        "RAY_TLS_SERVER_KEY": f"{FOLDER}/{TLS_KEY}",
    }
    return {**common, **(storage if head else {}), **(encrypted if tls else {})}
