"""What follows from the results of a check: incidents, quarantines, and nodes to leave out."""

import time
from collections.abc import Callable

from launcher.admission.checks.execution import CheckReport
from launcher.core.checks.results import WINDOW_S, CheckedNode, NodeVerdict, believable
from launcher.core.model.checks import NodeCheck
from launcher.core.model.nodeset import NodeName
from launcher.store.store import Store
from launcher.transport.clock import pause

IDLE_END_S = 5.0
"""How long idle checks may take to end, once a run wants a node (s)."""


def record_failures(store: Store, fleet: str, name: str, check: NodeCheck, report: CheckReport) -> frozenset[NodeName]:
    """Store incidents of bad and suspect nodes, and quarantine the bad ones; return those.

    A bad node is left alone where the check may be wrong itself: it fails on most nodes, or has passed on none yet.
    """
    now = time.time()
    blamed = believable(report.results, store.checks.history.passed(fleet, check, now - WINDOW_S))
    for one in report.results:
        if one.node in blamed or one.verdict is NodeVerdict.SUSPECT:
            message = f"{'failed' if one.node in blamed else 'slow in'} check `{name}`: {one.message}"
            store.ledger.add_check(fleet, one.node, message, one.tail, now, quarantine=one.node in blamed)
    return blamed


def left_out(report: CheckReport) -> tuple[CheckedNode, ...]:
    """Return the nodes that nothing should start on: bad ones, and suspect ones unless most are."""
    suspect = report.of(NodeVerdict.SUSPECT)
    return (*report.of(NodeVerdict.BAD), *(suspect if 2 * len(suspect) <= len(report.results) else ()))


def fails_everywhere(report: CheckReport) -> bool:
    """Whether a check fails on most of several nodes, so that its script is suspected instead of them."""
    bad = len(report.of(NodeVerdict.BAD))
    return bad > 1 and 2 * bad > len(report.results)


def end_idle_checks(store: Store, fleet: str, wait: Callable[[float], None] = pause) -> None:
    """End checks of idle nodes of an inventory: their load would look like somebody else's use of the nodes."""
    deadline = time.monotonic() + IDLE_END_S
    while store.checks.running.stop_idle(fleet) and time.monotonic() < deadline:
        wait(0.1)
