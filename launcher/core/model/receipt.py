"""How actions end: the answer to an action, and the receipt that the journal keeps of it."""

from dataclasses import dataclass, field
from enum import Enum

from launcher.core.model.actions import Action
from launcher.core.model.nodeset import NodeName, fold


class Result(Enum):
    """How an action ended.

    KILLED: two scans found nothing of it. HELD: somebody else has the lease. NOT_FREE: nothing of the run is left, but
    somebody else uses the GPUs, or it cannot be told whether anybody does.
    """

    DONE = "done"
    KILLED = "killed"
    POWERED_OFF = "powered_off"
    HELD = "held"
    NOT_FREE = "not_free"
    CANNOT_TELL = "cannot_tell"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Where Ray has a bundle: the labels of its node, None while it has no node."""

    index: int
    slot: str | None
    domain: str | None
    generation: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The result of an action.

    `message` says what went wrong or who holds the lease; `tail` is the end of stderr.

    `notes` say what was decided on the way, `warnings` what a person should look at although the action succeeded.
    `nodes` are the nodes that a slice got. `lasting`: the same failure would come again. `unfit` are the nodes that are
    to blame: nothing can be written there, or nothing more can be started. `elapsed` is in seconds.
    """

    result: Result
    stage: str = ""
    message: str = ""
    tail: tuple[str, ...] = ()
    bundles: tuple[Bundle, ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    nodes: tuple[NodeName, ...] = ()
    lasting: bool = False
    unfit: tuple[NodeName, ...] = ()
    elapsed: float = 0.0

    @property
    def said(self) -> str:
        """Return the answer as one line for people."""
        domains = sorted({bundle.domain or "no domain" for bundle in self.bundles})
        slots = {
            domain: fold(b.slot or f"bundle {b.index}" for b in self.bundles if (b.domain or "no domain") == domain)
            for domain in domains
        }
        placed = "; ".join(f"Ray has {slots[domain]} in {domain}" for domain in domains)
        return ": ".join(part for part in (self.result.value, self.message, placed, *self.notes) if part)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """The journalled answer to one action; `seq` orders the receipts of a run, `at` is in seconds."""

    seq: int
    at: float
    action: Action
    answer: Answer = field(default_factory=lambda: Answer(result=Result.DONE))
