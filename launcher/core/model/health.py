"""What a node shows of its own health: signs of faults, ordered by how surely they are its own."""

from dataclasses import dataclass
from enum import IntEnum


class Symptom(IntEnum):
    """What a sign points to, the worst first: when one link dies a whole slice reports errors, and the node that shows
    the worst is the one at fault."""

    GPU_LOST = 0
    FATAL_LINK = 1
    MEMORY = 2
    FIRMWARE = 3
    NODE = 4
    SYMPATHETIC = 5
    APPLICATION = 6

    @property
    def condemns(self) -> bool:
        """Answer whether it speaks against the node itself, not against a peer or the program."""
        return self < Symptom.SYMPATHETIC


@dataclass(frozen=True, slots=True, kw_only=True)
class Sign:
    """Something that a node shows, and the words or log line that show it."""

    symptom: Symptom
    words: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """What was found when a node was last asked about itself, at a time of the loop's clock (s).

    `hung` names what did not answer in its time: a signal too, but not one that condemns alone.
    """

    at: float
    signs: tuple[Sign, ...] = ()
    hung: tuple[str, ...] = ()

    @property
    def worst(self) -> Symptom | None:
        """Answer the worst symptom; None where nothing is wrong."""
        return min((sign.symptom for sign in self.signs), default=None)
