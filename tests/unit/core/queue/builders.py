"""Racks in the hands of runs, for tests of the queue."""

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Unavailable
from tests.property.test_queue import FLEET


def held(**by: str) -> dict[NodeName, Unavailable]:
    """Racks, whole or in part, in the hands of runs: `r0="a"`, `r0_2="a"` for two nodes of it."""
    unavailable: dict[NodeName, Unavailable] = {}
    for where, who in by.items():
        rack, _, number = where.partition("_")
        for node in [node for node in FLEET.nodes if node.rack == rack][: int(number or 3)]:
            unavailable[node.name] = Unavailable(used_by=who)
    return unavailable
