"""What is said of a node or of a slice: a fact, one of three answers (or that it does not apply), and words."""

from dataclasses import dataclass
from enum import Enum, unique

from launcher.core.model.nodeset import NodeName


@unique
class Fact(Enum):
    """What is asked of a node, in the order in which it is reported. REACHABLE is answered by who connects."""

    REACHABLE = "reachable"
    HOST = "host"
    CLOCK = "clock"
    PYTHON = "python"
    RAY = "ray"
    DISK = "disk"
    SHARED_MEMORY = "shared memory"
    OPEN_FILES = "open files"
    OWN_NAME = "own name"
    PORTS = "ports"
    OTHER_RAY = "other ray"
    LEFTOVERS = "leftovers"
    LEASE = "lease"
    LOGOUT = "logout"
    SUDO = "sudo"
    DRIVER = "driver"
    GPUS = "gpus"
    GPU_MEMORY = "gpu memory"
    RECOVERY = "recovery"
    FABRIC = "fabric"
    DOMAIN = "domain"
    IMEX = "imex"
    XIDS = "xids"
    INFINIBAND = "infiniband"


@unique
class Answer(Enum):
    """What is known of a fact. CANNOT_TELL is never taken for GOOD, and never fails."""

    GOOD = "good"
    BAD = "bad"
    CANNOT_TELL = "cannot tell"
    NOT_APPLICABLE = "not applicable"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One fact judged. `stops`: a gang should rather start elsewhere. `nodes`: whom a finding about a slice names,
    nobody where no more than half agree."""

    fact: Fact
    answer: Answer
    message: str
    evidence: tuple[str, ...] = ()
    stops: bool = False
    nodes: tuple[NodeName, ...] = ()


def good(fact: Fact, message: str) -> Finding:
    """Return that a fact is as it should be."""
    return Finding(fact=fact, answer=Answer.GOOD, message=message)


def bad(fact: Fact, message: str, *evidence: str, stops: bool = True, nodes: tuple[NodeName, ...] = ()) -> Finding:
    """Return that a fact is not as it should be, with what shows it; by default, nothing should start here."""
    return Finding(fact=fact, answer=Answer.BAD, message=message, evidence=evidence, stops=stops, nodes=nodes)


def cannot_tell(fact: Fact, message: str, *, stops: bool = False, nodes: tuple[NodeName, ...] = ()) -> Finding:
    """Return that a fact could not be seen, and why."""
    return Finding(fact=fact, answer=Answer.CANNOT_TELL, message=message, stops=stops, nodes=nodes)


def not_applicable(fact: Fact, message: str) -> Finding:
    """Return that a fact makes no sense on this node."""
    return Finding(fact=fact, answer=Answer.NOT_APPLICABLE, message=message)
