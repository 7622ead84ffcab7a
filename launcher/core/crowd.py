"""Sweeps that are asked for, and those that do not succeed: what is left alive, and who else computes on the GPUs."""

from dataclasses import replace

from launcher.core.actions import Answer, Result, Sweep
from launcher.core.draft import Draft
from launcher.core.run import Cause, Evidence
from launcher.core.swap import free
from launcher.core.task import OnNoSpare

CROWDED = 3
"""How often in a row the GPUs of a node may not be free, a few seconds apart, before its seat goes elsewhere."""
STUBBORN = 2
"""How often in a row a sweep may not succeed before people are told."""


def sweep_all(draft: Draft) -> None:
    """Ask for each sweep that has no receipt yet, and say which do not succeed.

    What cannot be reached cannot be swept, and each try would be one more line of the journal. Whether GPUs are free
    matters where the seat stays: of a node that is left, it is enough that nothing of the run lives there.
    """
    for key, sweep in draft.sweeps.items():
        if not draft.sees(sweep.node):
            continue
        stays = draft.holders.get(sweep.node) == sweep.member and sweep.node not in draft.condemned
        if sweep.reused and not stays:
            draft.retries.pop(key, None)  # what it failed for may not matter any more
        draft.sweeps[key] = replace(sweep, reused=stays)
        draft.do(draft.sweeps[key])
        retry = draft.retries.get(key)
        if retry and retry.words and retry.count >= STUBBORN:
            draft.waiting_for = draft.waiting_for or f"{sweep.member} waits for {sweep.node}: {retry.words}"


def unswept(draft: Draft, sweep: Sweep, answer: Answer) -> None:
    """Take in that a sweep did not succeed. GPUs that others hold cost a node its seat where another can have it, or
    the policy does not wait."""
    retry = replace(draft.retries[sweep.key], words=answer.words)
    draft.retries[sweep.key] = retry
    held = draft.holders.get(sweep.node) == sweep.member
    if answer.result is not Result.NOT_FREE or retry.count < CROWDED or not held:
        return
    member = draft.index.by_name[sweep.member]
    waits = draft.index.policy(member).on_no_spare is OnNoSpare.WAIT
    if not waits or any(draft.sees(name) for name in free(draft, member)):
        # Its own health says nothing of strangers: nothing starts there again before somebody has looked.
        draft.condemn(sweep.node, Evidence(cause=Cause.NODE, words=answer.words))
