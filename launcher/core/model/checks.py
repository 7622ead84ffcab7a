"""Checks of nodes: commands that prove under load that a node works."""

from dataclasses import dataclass
from enum import Enum
from hashlib import sha256


class CheckStage(Enum):
    """When a check runs: before a run starts on a node, before a failed node returns, or while a node is idle."""

    BEFORE_START = "before_start"
    BEFORE_RETURN = "before_return"
    PERIODIC_IDLE = "periodic_idle"


class CheckScope(Enum):
    """What one execution of a check covers: each node alone, a pair of one domain, or a whole slice at once."""

    NODE = "node"
    PAIR = "pair"
    SLICE = "slice"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeCheck:
    """A command and how its result is read.

    `script` is a shell command, or a whole program that begins with `#!`. `limit` is its time (s). `every` is how often
    an idle node is checked (s). A number that is worse than usual by more than the factor `slower_by` is suspect.
    """

    script: str
    on: CheckScope = CheckScope.NODE
    limit: float = 120.0
    slower_by: float = 1.25
    lower_is_better: bool = False
    every: float = 86400.0

    @property
    def key(self) -> str:
        """Return what numbers of this check are kept under: another script measures something else."""
        return sha256(f"{self.on.value}\0{self.script}".encode()).hexdigest()[:12]

    def speed(self, number: float) -> float:
        """Return a number of the check so that more is better; 0 for one that cannot be compared."""
        if not self.lower_is_better:
            return max(0.0, number)
        return 1.0 / number if number > 0 else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckPolicy:
    """The checks of an inventory; None where there is none."""

    before_start: NodeCheck | None = None
    before_return: NodeCheck | None = None
    periodic_idle: NodeCheck | None = None

    def at(self, stage: CheckStage) -> NodeCheck | None:
        """Return the check of a stage."""
        return {
            CheckStage.BEFORE_START: self.before_start,
            CheckStage.BEFORE_RETURN: self.before_return,
            CheckStage.PERIODIC_IDLE: self.periodic_idle,
        }[stage]
