"""A run is kept, and placed anew where somebody else took nodes of it in the same moment."""

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from launcher.admission.preflight import guessed
from launcher.cli.intake import Request, keep_secrets
from launcher.cli.options import home
from launcher.cli.output.console import clean, pause, say
from launcher.cli.output.plan import plan_text
from launcher.cli.parcel import keep_files
from launcher.cli.ready import MovedError, Ready, held_words
from launcher.core.model.actions import Acquire, Result
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import UnavailableNodes
from launcher.core.model.run import Cause, Run, RunName, RunState
from launcher.setup.lease import Holder, read_holder
from launcher.store.queue import IN_LINE
from launcher.store.store import Store, secrets_file

if TYPE_CHECKING:
    from launcher.store.rows import RunRow

ROUNDS = 4
"""How often a launch is placed anew: each time somebody else was faster, and it names them."""

YIELD_S = 6.0
"""Seconds in which a run that gives way has let go of its nodes, and the one that goes first has taken them."""


def keep(store: Store, request: Request, ready: Ready) -> Run:
    """Return the run, kept with its claims, secrets and files; where those cannot be kept, nothing is."""
    return _kept(store, request, claim(store, request, ready))


def enqueue(store: Store, request: Request) -> Run:
    """Return a run that waits for its turn, kept with its secrets and files."""
    name, source = RunName(request.task.name), request.source
    run = store.queue.put(name=name, task=request.task, fleet=request.fleet, source=source, at=time.time())
    return _kept(store, request, run)


def _kept(store: Store, request: Request, run: Run) -> Run:
    try:
        keep_secrets(secrets_file(home(), run.id), request.secrets)
        keep_files(run)
    except BaseException:  # Ctrl-C too: nothing was begun, and nothing is left
        store.finish(run.id, RunState.FAILED, time.time())
        raise
    return run


def claim(store: Store, request: Request, ready: Ready) -> Run:
    """Return the run, kept with its claims; where other runs came first, it is placed among them, and said so."""
    while True:
        try:
            return store.launch(
                name=RunName(request.task.name),
                task=request.task,
                fleet=ready.fleet,
                decide=lambda _: ready.decide(free(store, request)),
                source=request.source,
                at=time.time(),
            )
        except MovedError:
            say("other runs came first; it is placed so:")
            say(plan_text(request.task.name, ready.place(free(store, request))))


def free(store: Store, request: Request) -> UnavailableNodes:
    """Return what is not free to a task that is launched now: what runs have, and what those in the queue will need."""
    from launcher.admission.queue_explain import not_free

    return not_free(store, guessed(request.fleet, store.domains(request.fleet.name)), request.task)


def lost(store: Store, row: "RunRow") -> dict[NodeName, Holder]:
    """Return who has which nodes that a run did not get, where it is over for that."""
    if row.ended is None or row.outcome is None or row.outcome.cause is not Cause.LEASE_HELD:
        return {}
    return {
        receipt.action.node: read_holder(receipt.answer.message)
        for receipt in store.receipts_after(row.id, 0)
        if isinstance(receipt.action, Acquire) and receipt.answer.result is Result.HELD
    }


def give_way(run: Run, held: Mapping[NodeName, Holder]) -> None:
    """Say who was faster, and return when it is our turn.

    Two that came at once may each have got what the other lacks, and both let go. Then the one whose id comes first
    goes first; the other waits until it can see whom the nodes belong to.
    """
    say(clean(f"{held_words(held)}; placing `{run.name}` anew"))
    if any(holder.run and holder.run < run.id for holder in held.values()):
        pause(YIELD_S)


def seen_in_line(store: Store, run: Run, limit: float) -> "RunRow":
    """Return a run as soon as its controller has said where in the queue it is or has begun it."""
    deadline = time.monotonic() + limit
    while True:
        row = store.find(run.id)
        if row.state is not RunState.QUEUED or row.status_message != IN_LINE or time.monotonic() > deadline:
            return row
        pause(0.05)


def settle(store: Store, run: Run, limit: float) -> "RunRow":
    """Return a run as soon as it has all its nodes, is over, or `limit` seconds have passed."""
    deadline = time.monotonic() + limit
    while True:
        row, (_, record) = store.find(run.id), store.load(run.id)
        wanted = set(run.placement.nodes) - set(record.failed_nodes)
        losing = any(evidence.cause is Cause.LEASE_HELD for evidence in record.failed_nodes.values())
        if row.ended is not None or (wanted <= record.leased and not losing) or time.monotonic() > deadline:
            return row
        pause(0.05)
