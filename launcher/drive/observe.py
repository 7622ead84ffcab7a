"""Look at the world: what is under way, what came back, what exists; in that order."""

from collections.abc import Mapping, Sequence

from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Receipt
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Observation
from launcher.core.model.operator_requests import OperatorRequest
from launcher.core.model.run import Run
from launcher.ports import Clock, Nodes


def observe(
    run: Run,
    nodes: Nodes,
    clock: Clock,
    *,
    in_flight: frozenset[ActionKey],
    receipts: Sequence[Receipt],
    health: Mapping[NodeName, Health],
    orders: Sequence[OperatorRequest],
    drained: Mapping[NodeName, str],
    history: Mapping[NodeName, int],
) -> Observation:
    """Return what the kernel may know now.

    All but the look is read before it: so a receipt is never newer than the sight that goes with it. A node that the
    inventory drains and an order does too is drained for the order's reason.
    """
    sighting = nodes.look(run)
    written = {node.name: node.drained for node in run.fleet.nodes if node.drained is not None}
    return Observation(
        at=clock.now(),
        nodes=sighting.nodes,
        head=sighting.head,
        receipts=tuple(receipts),
        in_flight=in_flight,
        reached=sighting.reached,
        health=health,
        requests=tuple(orders),
        drained={**written, **drained},
        history=history,
        wall=clock.wall(),
    )
