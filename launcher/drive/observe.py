"""Look at the world: what is under way, what came back, what exists; in that order."""

from collections.abc import Sequence

from launcher.core.actions import Receipt
from launcher.core.observation import Observation
from launcher.core.run import Run
from launcher.ports import Clock, Nodes


def observe(
    run: Run, nodes: Nodes, clock: Clock, *, in_flight: frozenset[str], receipts: Sequence[Receipt]
) -> Observation:
    """Answer what the kernel may know now.

    `in_flight` and `receipts` are read before the look: so a receipt is never newer than the sight that goes with it.
    """
    sighting = nodes.look(run)
    return Observation(
        at=clock.now(),
        nodes=sighting.nodes,
        head=sighting.head,
        receipts=tuple(receipts),
        in_flight=in_flight,
        reached=sighting.reached,
    )
