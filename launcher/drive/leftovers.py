"""Nodes that a run could not release when it ended: released on request, once they can be reached."""

import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from launcher.core.control.status import RunStatus
from launcher.core.control.teardown import left_behind
from launcher.core.model.actions import Reason, Release, Unit, Why
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.receipt import Result
from launcher.core.model.record import POWERED_OFF, Record
from launcher.core.model.run import Run
from launcher.drive.adapters import open_nodes
from launcher.drive.waves import AT_ONCE
from launcher.ports import Nodes
from launcher.store.codec import load
from launcher.store.rows import RunRow
from launcher.store.store import Store

_REASON = Reason(why=Why.STOP, message="the run has ended")


def left_of(store: Store, row: RunRow) -> tuple[NodeName, ...]:
    """Return the nodes that an ended run may have left something on."""
    return _candidates(store.load(row.id)[1]) if row.ended is not None else ()


def _candidates(record: Record) -> tuple[NodeName, ...]:
    return tuple(sorted(node for node in record.requested if record.stopped.get(node) != POWERED_OFF))


def release_left(store: Store, row: RunRow) -> tuple[tuple[NodeName, ...], Mapping[NodeName, str]]:
    """Release the nodes that an ended run has left; return them, and those that cannot be released with the reason.

    Only what has the mark of that run is ended, whoever uses the node now. What was released is stored. A node that an
    operator confirmed dead is tried too: it may be back, and was maybe not dead.
    """
    run, record = store.load(row.id)
    left = _candidates(record)
    nodes = open_nodes(store.home, run.fleet)
    try:
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="release") as pool:
            tried = {node: why for node, why in pool.map(lambda node: _release(nodes, run, node), left) if why}
    finally:
        nodes.close()
    failed = {node: why for node, why in tried.items() if node in left_behind(record)}
    record = record.copy()
    record.requested -= set(left) - tried.keys()
    message = row.outcome.message if row.outcome else row.status_message
    if failed:
        message += f"; not released: {fold(failed)}: nvlaunch down {run.id}"
    store.intend(run.id, record, (), message, row.state, time.time())
    store.publish(run.id, replace(load(RunStatus, row.snapshot), status_message=message))
    return tuple(node for node in left if node not in tried), failed


def _release(nodes: Nodes, run: Run, node: NodeName) -> tuple[NodeName, str]:
    for unit in (Unit.SLOT, Unit.HEAD):  # the head's agent of the run, where it had one there
        answer = nodes.perform(run, Release(reason=_REASON, node=node, unit=unit))
        if answer.result is not Result.KILLED:
            return node, answer.message or answer.result.value
    return node, ""
