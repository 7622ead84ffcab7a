"""The way back of quarantined nodes: out for a time after a relapse, then `before_return`."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from launcher.admission.checks.consequences import end_idle_checks
from launcher.admission.checks.execution import CheckRunner, budget
from launcher.core.checks.results import CheckedNode, NodeVerdict, cannot_tell
from launcher.core.checks.returning import ReturnDecision, after_check, retry_after
from launcher.core.model.checks import CheckScope, CheckStage, NodeCheck
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.run import RunId
from launcher.errors import ConflictError
from launcher.ports import Checker
from launcher.store.checks.history import CheckHistory
from launcher.store.evidence.incidents import IncidentKind
from launcher.store.store import Store

_NAME = CheckStage.BEFORE_RETURN.value
_BY = "check `before_return`"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedReturn:
    """A quarantined node, and whether it came back."""

    node: NodeName
    decision: ReturnDecision


def due_returns(store: Store, fleet: Inventory, now: float) -> Mapping[NodeName, int]:
    """Return the quarantined nodes that may be checked now, each with how often it has failed its check so far.

    Drained nodes and those in their time out are left out; so are those whose last check was lately. `now` is
    wall-clock time (s).
    """
    drained, known = store.ledger.drained(fleet.name), {node.name: node for node in fleet.nodes}
    found: dict[NodeName, int] = {}
    failed = [one for one in store.ledger.incidents(fleet.name) if one.kind is IncidentKind.STAYS_OUT]
    history = store.checks.history
    for one in store.ledger.quarantines(fleet.name):
        node = known.get(one.node)
        if node is None or node.drained is not None or one.node in drained:
            continue
        begun = _begun(history, fleet.name, one.node, one.since, now)
        attempts = sum(past.node == one.node and begun <= past.at <= now for past in failed)
        results = history.of_node(fleet.name, one.node)
        own = [past for past in results if past.name == _NAME and begun <= past.at <= now]
        waits = own and now < own[-1].at + retry_after(attempts, own[-1].verdict)
        if not waits and history.may_return(fleet.name, one.node, now).now:
            found[one.node] = attempts
    return found


def _begun(history: CheckHistory, fleet: str, node: NodeName, since: float, now: float) -> float:
    """Return since when a node is out (s, wall clock); its last return, where the clock was ahead when it failed."""
    if since <= now:
        return since
    returns = [one.back for one in history.outages(fleet, node) if one.back is not None and one.back <= now]
    return max(returns, default=0.0)


def check_return(
    store: Store, fleet: Inventory, name: NodeName, attempts: int, checker: Checker, stopped: Callable[[], bool]
) -> CheckedReturn | None:
    """Check a quarantined node, and readmit it if it passes; None where it could not be begun.

    A run that waits for the node takes it back.
    """
    check = fleet.checks.before_return
    assert check is not None
    node = next(node for node in fleet.nodes if node.name == name)
    holder = store.holders(fleet.name).get(name)
    runner = CheckRunner(store, fleet, _NAME, check, checker, by="the service", stopped=stopped, beside=holder)
    partners = _partners(store, fleet, node, check)
    if partners is None:
        return None
    end_idle_checks(store, fleet.name)
    try:
        with runner.reserved((*partners, name)):
            result = _run(runner, check, name, partners)
    except ConflictError:  # a run took a partner, or somebody checks the node by hand
        return None
    if stopped():
        return None
    decision = after_check(result, time.time(), attempts)
    if decision.now:
        _readmit(store, fleet, name, holder)
    elif result.verdict is not NodeVerdict.CANNOT_TELL:
        kind = IncidentKind.STAYS_OUT
        store.ledger.add_check(fleet.name, name, decision.reason, result.tail, time.time(), kind=kind)
    return CheckedReturn(node=name, decision=decision)


def _run(runner: CheckRunner, check: NodeCheck, name: NodeName, partners: Sequence[NodeName]) -> CheckedNode:
    if check.on is CheckScope.NODE:
        report = runner.alone((name,))
    else:
        report = runner.in_groups(((*partners, name),), time.monotonic() + budget(check))
    found = next((one for one in report.results if one.node == name), None)
    if found is None or (not report.complete and found.verdict is NodeVerdict.GOOD):
        return cannot_tell(name, "the check did not come to its end")
    return found


def _partners(store: Store, fleet: Inventory, node: Node, check: NodeCheck) -> tuple[NodeName, ...] | None:
    """Return idle good nodes of its domain to test a node with; None where the check needs one and there is none."""
    if check.on is CheckScope.NODE:
        return ()
    unavailable = store.unavailable(fleet)
    good = [
        one.name
        for one in fleet.nodes
        if (one.domain or one.rack) == (node.domain or node.rack)
        and one.name != node.name
        and one.drained is None
        and (one.name not in unavailable or unavailable[one.name].free)
    ]
    return tuple(good[:1] if check.on is CheckScope.PAIR else good) or None


def _readmit(store: Store, fleet: Inventory, name: NodeName, holder: RunId | None) -> None:
    now = time.time()
    store.ledger.readmit(fleet.name, name, by=_BY, at=now)
    if holder is not None and name in store.load(holder)[1].failed_nodes:
        store.requests.add(holder, RequestKind.READMIT, subject=name, by=_BY, at=now)
