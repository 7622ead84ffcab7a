"""The `Checker` port over an imaginary fleet: a number by the faults that are there."""

import random
from collections.abc import Callable, Sequence

from launcher.core.checks.results import CheckedNode, CheckGroup, NodeVerdict, cannot_tell
from launcher.core.model.inventory import Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import Fault, FaultKind, SimSettings

INSIDE, OUTSIDE = 840.0, 400.0
"""What an imaginary all-reduce reaches inside an NVLink domain and across domains (GB/s): near what is published."""

NOISE = 0.02
"""The standard deviation of a number, as a part of it."""

_SILENT = (FaultKind.POWER_CUT, FaultKind.LINK_DOWN, FaultKind.SSH_DOWN)


class SimChecker:
    """Makes numbers up; faults are there from the beginning, whatever their time.

    So a check shows a fault that no passive sign shows. Equal checks of equal nodes give equal numbers.
    """

    def __init__(self, settings: SimSettings) -> None:
        self._settings = settings

    def check(self, group: CheckGroup, stopped: Callable[[], bool]) -> tuple[CheckedNode, ...]:
        """Return the result of each node at once; no script runs."""
        names = tuple(node.name for node in group.nodes)
        if stopped():
            return tuple(cannot_tell(name, "it was stopped") for name in names)
        faults = [fault for fault in self._settings.faults if fault.node in names]
        if silent := {fault.node for fault in faults if fault.fault in _SILENT and fault.at <= 0}:
            return tuple(
                cannot_tell(name, "no answer in 10 s")
                if name in silent
                else cannot_tell(name, "it could not begin on all nodes", waited=True)
                for name in names
            )
        failing = {fault.node for fault in faults if fault.fault is FaultKind.CHECK_FAILS}
        number = self._number(group, names, faults)
        return tuple(
            CheckedNode(node=name, verdict=NodeVerdict.BAD, message="exit status 1: an imaginary fault", seconds=1.0)
            if name in failing
            else CheckedNode(node=name, verdict=NodeVerdict.GOOD, number=number, seconds=1.0)
            for name in names
        )

    def _number(self, group: CheckGroup, names: Sequence[NodeName], faults: Sequence[Fault]) -> float:
        slow = [fault.factor for fault in faults if fault.fault is FaultKind.SLOW_NODE]
        slow += [fault.factor for fault in faults if fault.fault is FaultKind.SLOW_LINK and fault.peer in names]
        draw = random.Random(f"{self._settings.seed} {group.check.key} {' '.join(sorted(names))}")  # noqa: S311  made up
        speed = (INSIDE if _one_domain(group.nodes) else OUTSIDE) / max(slow, default=1.0) * draw.gauss(1.0, NOISE)
        return round(10_000.0 / speed if group.check.lower_is_better else speed, 1)

    def close(self) -> None:
        """Do nothing: there are no connections."""


def _one_domain(nodes: Sequence[Node]) -> bool:
    return len({node.domain or node.rack for node in nodes}) == 1
