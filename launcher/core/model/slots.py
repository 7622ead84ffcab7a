"""Who holds what: the names of seats and gangs, and the holder of a seat."""

from dataclasses import dataclass
from typing import NewType

from launcher.core.model.inventory import NodeName

MemberName = NewType("MemberName", str)
GangName = NewType("GangName", str)


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """The node that holds a seat; `generation` rises with each new holder and each new raylet."""

    member: MemberName
    node: NodeName
    generation: int = 0
