"""How an imaginary fleet behaves, and what breaks in it."""

from dataclasses import dataclass
from enum import Enum

from launcher.core.model.nodeset import NodeName


class FaultKind(Enum):
    """What can break on a node of an imaginary fleet; `launcher/sim/faults.py` says what each does."""

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
    GPU_LOST = "gpu_lost"
    XID_FATAL = "xid_fatal"
    XID_SYMPATHETIC = "xid_sympathetic"
    MEMORY_ERROR = "memory_error"
    DISK_FULL = "disk_full"
    PROBE_HANGS = "probe_hangs"
    SLOW_START = "slow_start"
    CLAIM_HELD = "claim_held"
    GPU_TAKEN = "gpu_taken"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """Something that breaks in an imaginary fleet, `at` seconds after the run's first action.

    `duration` is how long it lasts (s); None: what kills strikes once, what holds (a cut, a failing setup, a foreign
    lease) holds for good. `code` is the exit status of what fails.
    """

    at: float
    node: NodeName
    fault: FaultKind
    duration: float | None = None
    code: int = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class SimSettings:
    """How an imaginary fleet behaves: seconds to start a node, seconds a rank runs, virtual seconds a real one."""

    seed: int = 1
    start_s: float = 3.0
    run_s: float = 600.0
    speed: float = float("inf")
    faults: tuple[Fault, ...] = ()
