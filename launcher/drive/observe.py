"""Observe a run: actions under way, receipts, and what exists, in that order."""

from collections.abc import Callable, Mapping, Sequence

from launcher.core.model.action_key import ActionKey
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Observation
from launcher.core.model.operator_requests import OperatorRequest
from launcher.core.model.receipt import Receipt
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
    requests: Sequence[OperatorRequest],
    drained: Mapping[NodeName, str],
    suspects: Mapping[NodeName, str],
    room: frozenset[str] = frozenset(),
    kept_out: frozenset[NodeName] = frozenset(),
    warn: Callable[[str], object] = lambda _: None,
) -> Observation:
    """Return the observation of a run now.

    Everything but the look is read before it: no receipt is newer than the look that goes with it. Where inventory and
    operator both drain a node, the operator's reason counts. `warn` is told what people should know of the look.
    """
    sighting = nodes.look(run)
    for message in sighting.warnings:
        warn(message)
    written = {node.name: node.drained for node in run.fleet.nodes if node.drained is not None}
    return Observation(
        at=clock.now(),
        nodes=sighting.nodes,
        head=sighting.head,
        receipts=tuple(receipts),
        in_flight=in_flight,
        reached=sighting.reached,
        health=health,
        requests=tuple(requests),
        drained={**written, **drained},
        suspects=suspects,
        room=room,
        kept_out=kept_out,
        wall=clock.wall(),
    )
