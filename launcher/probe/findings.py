"""Findings about a node or a slice: fact, result and message."""

from dataclasses import dataclass
from enum import Enum, unique

from launcher.core.model.nodeset import NodeName


@unique
class Fact(Enum):
    """What is checked on a node, in the order of reports.

    REACHABLE is checked by connecting.
    """

    REACHABLE = "reachable"
    HOST = "host"
    CLOCK = "clock"
    PYTHON = "python"
    RAY = "ray"
    DISK = "disk"
    FOLDERS = "folders"
    SHARED_MEMORY = "shared memory"
    OPEN_FILES = "open files"
    LOCKED_MEMORY = "locked memory"
    PROCESSES = "processes"
    HOSTNAME = "hostname"
    PORTS = "ports"
    OTHER_RAY = "other ray"
    LEFTOVERS = "leftovers"
    LEASE = "lease"
    SLURM = "slurm"
    LOGOUT = "logout"
    SUDO = "sudo"
    CONTAINERS = "containers"
    FUSE = "fuse"
    DRIVER = "driver"
    GPUS = "gpus"
    GPU_MEMORY = "gpu memory"
    MEMORY_ERRORS = "memory errors"
    RECOVERY = "recovery"
    FABRIC = "fabric"
    DOMAIN = "domain"
    IMEX = "imex"
    XIDS = "xids"
    INFINIBAND = "infiniband"


@unique
class CheckResult(Enum):
    """The result of a check. CANNOT_TELL counts neither as GOOD nor as BAD."""

    GOOD = "good"
    BAD = "bad"
    CANNOT_TELL = "cannot tell"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """The check of one fact. `stops`: no gang should start on the node.

    `nodes` are the nodes that differ in a finding about a slice; none if no value has a majority.
    """

    fact: Fact
    result: CheckResult
    message: str
    evidence: tuple[str, ...] = ()
    stops: bool = False
    nodes: tuple[NodeName, ...] = ()


def good(fact: Fact, message: str) -> Finding:
    """Return the finding that a fact is good."""
    return Finding(fact=fact, result=CheckResult.GOOD, message=message)


def bad(fact: Fact, message: str, *evidence: str, stops: bool = True, nodes: tuple[NodeName, ...] = ()) -> Finding:
    """Return the finding that a fact is bad, with the evidence.

    By default nothing should start on the node.
    """
    return Finding(fact=fact, result=CheckResult.BAD, message=message, evidence=evidence, stops=stops, nodes=nodes)


def cannot_tell(fact: Fact, message: str, *, stops: bool = False, nodes: tuple[NodeName, ...] = ()) -> Finding:
    """Return the finding that a fact is unknown, and why."""
    return Finding(fact=fact, result=CheckResult.CANNOT_TELL, message=message, stops=stops, nodes=nodes)


def not_applicable(fact: Fact, message: str) -> Finding:
    """Return the finding that a fact does not apply to the node."""
    return Finding(fact=fact, result=CheckResult.NOT_APPLICABLE, message=message)
