"""Sweeps that are asked for, and those that do not succeed: what is left alive, and who else computes on the GPUs."""

from dataclasses import replace

from launcher.core.control.fencing import power_off
from launcher.core.control.spares import free
from launcher.core.control.state import Draft
from launcher.core.model.actions import Answer, Result, Sweep
from launcher.core.model.inventory import NodeName
from launcher.core.model.run import Cause, Evidence
from launcher.core.model.task import OnNoSpare

CROWDED = 3
"""How often in a row the GPUs of a node may not be free, a few seconds apart, before its seat goes elsewhere."""
STUBBORN = 2
"""How often in a row a sweep may not succeed before people are told."""
WEDGED = 5
"""How often in a row, over some twenty seconds, before the node's power is cut, where the inventory says how."""
CUT_AGAIN = 120.0
"""Seconds before that is done once more: a machine may be seen for a while after its power was cut."""


def sweep_all(draft: Draft) -> None:
    """Ask for each sweep that has no receipt yet, and say which do not succeed.

    What cannot be reached cannot be swept, and each try would be one more line of the journal. Whether GPUs are free
    matters where the seat stays: of a node that is left, it is enough that nothing of the run lives there.
    """
    for key, sweep in draft.sweeps.items():
        if not draft.sees(sweep.node):
            continue
        stays = _asks(draft, sweep) and sweep.node not in draft.condemned
        if sweep.reused and not stays:
            draft.retries.pop(key, None)  # what it failed for may not matter any more
        draft.sweeps[key] = replace(sweep, reused=stays)
        draft.do(draft.sweeps[key])
        retry = draft.retries.get(key)
        if retry and retry.words and retry.count >= STUBBORN:
            draft.waiting_for = draft.waiting_for or f"{sweep.member} waits for {sweep.node}: {retry.words}"
            seat = draft.seats.get(sweep.member)
            if retry.count >= WEDGED and (seat is None or seat.node != sweep.node):
                _cut(draft, sweep.node, retry.words)


def _cut(draft: Draft, node: NodeName, words: str) -> None:
    """Have the power cut of a node that its seat has left and that cannot be swept: a process that hangs in a driver
    outlives SIGKILL. Nothing else of ours proves that it writes nothing more."""
    cut = f"cut:{node}"
    if draft.seen.at >= draft.since.get(cut, -CUT_AGAIN) + CUT_AGAIN:
        draft.since[cut] = draft.seen.at
        power_off(draft, node, words)


def unswept(draft: Draft, sweep: Sweep, answer: Answer) -> None:
    """Take in that a sweep did not succeed. GPUs that others hold cost a node its seat where another can have it, or
    the policy does not wait."""
    retry = replace(draft.retries[sweep.key], words=answer.words)
    draft.retries[sweep.key] = retry
    if answer.result is not Result.NOT_FREE or retry.count < CROWDED or not _asks(draft, sweep):
        return
    member = draft.index.by_name[sweep.member]
    waits = draft.index.policy(draft.index.lead(member)).on_no_spare is OnNoSpare.WAIT
    spare = sum(1 for name in free(draft, member) if draft.sees(name))
    owed = sum(1 for one in draft.of_slice(draft.index.home(member)) if draft.seats[one.name].node in draft.condemned)
    if not waits or spare > owed:
        # Its own health says nothing of strangers: nothing starts there again before somebody has looked.
        draft.condemn(sweep.node, Evidence(cause=Cause.NODE, words=answer.words))


def _asks(draft: Draft, sweep: Sweep) -> bool:
    """Answer whether the seat of a sweep is still on its node, and it is the one that asks whether GPUs are free: for
    all on that node where they start together, else each for its own."""
    member = draft.index.by_name.get(sweep.member)
    if member is None:
        return False
    lead = draft.index.lead(member)
    return draft.holders.get(sweep.node) == lead.name and (member is lead or draft.index.mixed(member))
