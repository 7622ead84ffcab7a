"""Nodes that Slurm has too: it lets a user in some seconds after a job of the user has begun there."""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from launcher.admission.node_checks import Examined
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall
from launcher.errors import ProvisionError
from launcher.transport.clock import pause

ALLOCATION_S = 30.0
"""How long nodes are waited for that Slurm does not let us into, where the task does not fit without them (s)."""
AGAIN_S = 3.0
"""How often they are asked (s)."""


class Asked(Protocol):
    """A placement that asks nodes."""

    @property
    def without_job(self) -> Sequence[NodeName]:
        """Return the nodes that Slurm does not let us into."""

    def ask_again(self, names: Iterable[NodeName]) -> None:
        """Forget what was found of nodes."""


def await_allocation(
    flight: Asked,
    place: Callable[[], Placement | Shortfall],
    tell: Callable[[Sequence[NodeName]], None],
    wait: Callable[[float], None] = pause,
) -> Placement | Shortfall:
    """Return a placement; one that fails for want of a job in Slurm is tried again for `ALLOCATION_S`.

    `tell` is given the nodes that are waited for, once. ProvisionError names them where they still let nobody in.
    """
    waited = 0.0
    while True:
        try:
            found: Placement | Shortfall | ProvisionError = place()
        except ProvisionError as error:
            found = error
        missing = flight.without_job
        if isinstance(found, Placement) or not missing or waited >= ALLOCATION_S:
            break
        if not waited:
            tell(missing)
        wait(AGAIN_S)
        waited += AGAIN_S
        flight.ask_again(missing)
    if isinstance(found, ProvisionError):
        raise found
    return found


def way_hint(asked: Iterable[Examined]) -> str:
    """Return what to check where no node has answered."""
    nodes = list(asked)
    if all(one.without_job for one in nodes):
        return "Slurm has these nodes, and you have no job there: ask it for them first (`salloc`, `sbatch`)"
    if all("cannot resolve its name" in (one.unhealthy or "") for one in nodes):  # other keys would not help
        return "check the DNS server of this machine and the names in the inventory, or set IP addresses there"
    return "check the network of this machine, and the user and key in the inventory"
