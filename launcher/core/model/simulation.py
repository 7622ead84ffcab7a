"""Settings and faults of an imaginary fleet."""

from dataclasses import dataclass
from enum import Enum

from launcher.core.model.nodeset import NodeName


class FaultKind(Enum):
    """Kinds of fault of an imaginary node; `launcher/sim/faults.py` describes each."""

    RAYLET_KILLED = "raylet_killed"
    RANK_FAILS = "rank_fails"
    RANK_KILLED = "rank_killed"
    AGENT_KILLED = "agent_killed"
    HEAD_KILLED = "head_killed"
    SETUP_FAILS = "setup_fails"
    POWER_CUT = "power_cut"
    LINK_DOWN = "link_down"
    SSH_DOWN = "ssh_down"
    BASTION_DOWN = "bastion_down"
    RAYLET_STOPPED = "raylet_stopped"
    RANK_HANGS = "rank_hangs"
    RANK_SLOW = "rank_slow"
    GPU_LOST = "gpu_lost"
    XID_FATAL = "xid_fatal"
    XID_SYMPATHETIC = "xid_sympathetic"
    MEMORY_ERROR = "memory_error"
    DISK_FULL = "disk_full"
    PROBE_HANGS = "probe_hangs"
    SLOW_START = "slow_start"
    LEASE_HELD = "lease_held"
    GPU_TAKEN = "gpu_taken"
    CHECK_FAILS = "check_fails"
    SLOW_NODE = "slow_node"
    SLOW_LINK = "slow_link"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A fault of an imaginary node, `at` seconds after the first action of the run.

    `duration` is in seconds. None means once for a fault that kills, and for ever for a fault that lasts (a cut link, a
    failing setup, a foreign lease). `code` is the exit status of a program that fails. A slow link ends at `peer`;
    checks with a slow node or link are `factor` times slower.
    """

    at: float
    node: NodeName
    fault: FaultKind
    duration: float | None = None
    code: int = 3
    peer: NodeName | None = None
    factor: float = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """Settings of an imaginary fleet.

    `start_s` is how long a node takes to start (s), `run_s` how long a rank runs (s), `speed` how many virtual seconds
    pass in one real second.
    """

    seed: int = 1
    start_s: float = 3.0
    run_s: float = 600.0
    speed: float = float("inf")
    faults: tuple[Fault, ...] = ()
