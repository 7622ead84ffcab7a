"""When a failed node comes back: after its check, and later each time it fails again."""

from collections.abc import Iterable
from dataclasses import dataclass

from launcher.core.checks.results import CheckedNode, NodeVerdict
from launcher.core.model.text import count, span

RELAPSE_S = 86400.0
"""A failure within so long of a return is a relapse (s). A fault under load that comes back shows within a day of use;
NVSentinel's histogram of relapses reaches from 15 minutes to 30 days."""

FIRST_S = 3600.0
"""How long a node is left out after its first relapse (s); each further one doubles it."""

LONGEST_S = 7 * 86400.0
"""The longest time that a node is left out (s)."""

RETRY_S = 600.0
"""How long after a check that a node did not pass it is checked again (s); each further one doubles it."""

UNCLEAR_S = 120.0
"""How long after a check without an answer a node is checked again (s): it may be booting."""

JUST_RETURNED_S = 86400.0
"""How long nodes that did not return are preferred to one that did (s)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReturnDecision:
    """Whether a failed node may come back now, why, and when to look again (s, wall clock; None: it is back)."""

    now: bool
    reason: str
    again: float | None = None


def count_relapses(failures: Iterable[float], returns: Iterable[float]) -> int:
    """Return how many failures of a node, up to the newest, each came within a day of a return.

    A failure without a return shortly before ends the chain. Times are in seconds, wall clock.
    """
    failed, back = sorted(failures), sorted(returns)
    relapses = 0
    for before, at in zip([float("-inf"), *failed], failed, strict=False):
        last = max((one for one in back if before <= one < at), default=None)
        if last is None:
            relapses = relapses if before > at - RELAPSE_S else 0  # seen twice while it was out, or an old story
        else:
            relapses = relapses + 1 if at - last <= RELAPSE_S else 0
    return relapses


def time_out(relapses: int) -> float:
    """Return how long a node is left out after so many relapses (s): none, one hour, doubled each time."""
    return 0.0 if relapses <= 0 else min(LONGEST_S, FIRST_S * 2.0 ** min(relapses - 1, 30))


def retry_after(attempts: int, last: NodeVerdict) -> float:
    """Return how long to wait after so many checks that a node did not pass, and the `last` one (s)."""
    if last is NodeVerdict.CANNOT_TELL or attempts <= 0:
        return UNCLEAR_S
    return min(LONGEST_S, RETRY_S * 2.0 ** min(attempts - 1, 30))


def until_allowed(now: float, since: float, relapses: int) -> ReturnDecision:
    """Return whether the time out of a node that failed at `since` is over (s, wall clock).

    A failure in the future was noted while the clock was wrong, and keeps no node out.
    """
    again = since + time_out(relapses)
    if since <= now < again:
        reason = f"{count(relapses, 'relapse')} within a day of a return: out for {span(time_out(relapses))}"
        return ReturnDecision(now=False, reason=reason, again=again)
    return ReturnDecision(now=True, reason="time out is over" if relapses else "no relapse")


def after_check(result: CheckedNode, now: float, attempts: int) -> ReturnDecision:
    """Return whether a node comes back after `before_return`, in which it failed `attempts` times before.

    A check that cannot tell proves nothing: the node stays out until a later check, or until an operator readmits it.
    """
    if result.verdict is NodeVerdict.GOOD:
        number = "" if result.number is None else f" ({result.number:.6g})"
        return ReturnDecision(now=True, reason=f"passed `before_return`{number}")
    said = {NodeVerdict.BAD: "failed", NodeVerdict.SUSPECT: "is slow in", NodeVerdict.CANNOT_TELL: "has no answer from"}
    reason = f"{said[result.verdict]} `before_return`: {result.message}"
    return ReturnDecision(now=False, reason=reason, again=now + retry_after(attempts + 1, result.verdict))
