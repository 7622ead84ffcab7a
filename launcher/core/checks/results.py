"""One execution of a check on nodes, and what its exit status, its output and its number mean."""

import math
import re
import statistics
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from enum import Enum

from launcher.core.model.checks import NodeCheck
from launcher.core.model.inventory import Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId

MIN_HISTORY = 5
"""Numbers of other nodes below which nothing is usual yet."""

WINDOW_S = 30 * 86400.0
"""How far back numbers count (s): machines, drivers and the check's surroundings change."""

LARGEST = 1e15
"""A number beyond it is no measurement."""

_NUMBER = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,3})?", re.ASCII)
_SHELL_CANNOT_RUN = {126: "the command cannot be executed", 127: "the command is not found"}


class NodeVerdict(Enum):
    """What a check says of a node.

    SUSPECT: it passes, and its number is worse than usual. CANNOT_TELL says nothing about the node.
    """

    GOOD = "good"
    SUSPECT = "suspect"
    BAD = "bad"
    CANNOT_TELL = "cannot-tell"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckGroup:
    """A check on nodes in rank order, all at once.

    `name` says which check it is, `by` who runs it, for the lease of each node. `beside` is a run whose lease does not
    matter, since it waits for the node. `idle`: the check takes no lease, and ends as soon as somebody takes it.
    """

    name: str
    check: NodeCheck
    nodes: tuple[Node, ...]
    by: str
    beside: RunId | None = None
    idle: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedNode:
    """The result of a check on a node.

    `number` is None where it printed none. `tail` are the last lines of output, `seconds` the time it took. Of the
    nodes that cannot tell, one that `timed_out` did not end in time, and one that `waited` was well until another of
    its group could not begin.
    """

    node: NodeName
    verdict: NodeVerdict
    number: float | None = None
    message: str = ""
    tail: tuple[str, ...] = ()
    seconds: float = 0.0
    timed_out: bool = False
    waited: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A number that a check printed on a node, among `size` nodes at once; `at` is wall-clock time (s)."""

    node: NodeName
    rack: RackName
    at: float
    number: float
    size: int


def read_number(output: str) -> float | None:
    """Return the number in the last line of an output; None where that line is not one plain number."""
    last = next((line.strip() for line in reversed(output.splitlines()) if line.strip()), "")
    if len(last) > 64 or not _NUMBER.fullmatch(last):
        return None
    number = float(last)
    return number if math.isfinite(number) and abs(number) <= LARGEST else None


def judge(node: NodeName, status: int, output: str, tail: Sequence[str] = (), seconds: float = 0.0) -> CheckedNode:
    """Return the result of a check that ended: status 0 is good, 1 bad, any other cannot tell."""
    verdict = {0: NodeVerdict.GOOD, 1: NodeVerdict.BAD}.get(status, NodeVerdict.CANNOT_TELL)
    message = "" if verdict is NodeVerdict.GOOD else _why(status, tail)
    number = read_number(output) if verdict is NodeVerdict.GOOD else None
    return CheckedNode(node=node, verdict=verdict, number=number, message=message, tail=tuple(tail), seconds=seconds)


def cannot_tell(node: NodeName, why: str, *, timed_out: bool = False, waited: bool = False) -> CheckedNode:
    """Return the result of a check that did not run to its end."""
    return CheckedNode(node=node, verdict=NodeVerdict.CANNOT_TELL, message=why, timed_out=timed_out, waited=waited)


def mark_suspects(
    check: NodeCheck, now: Sequence[CheckedNode], size: int, history: Iterable[Measurement], at: float
) -> tuple[CheckedNode, ...]:
    """Return results in which numbers much worse than usual are suspect.

    Usual is the median of the newest numbers of other nodes of the last 30 days, by tests of this size; with fewer than
    five of them, that of the nodes tested now. Where most of those tested now are worse than before, something common
    to them has changed: then they are compared with each other only.
    """
    good = {one.node: one.number for one in now if one.verdict is NodeVerdict.GOOD and one.number is not None}
    before = _newest(history, size, at)
    worse = {name: why for name, number in good.items() if (why := _worse(check, number, _others(before, name)))}
    if 2 * len(worse) > len(good) and len(good) > 1:
        worse = {}
    if not worse:
        worse = {name: why for name, number in good.items() if (why := _worse(check, number, _others(good, name)))}
    return tuple(
        replace(one, verdict=NodeVerdict.SUSPECT, message=worse[one.node]) if one.node in worse else one for one in now
    )


def believable(results: Sequence[CheckedNode], passed: AbstractSet[NodeName]) -> frozenset[NodeName]:
    """Return the nodes that failed and may be blamed for it.

    A script with a mistake fails everywhere: so the check must have passed on another node, now or before (`passed`),
    and most of several nodes at once are not blamed.
    """
    bad = frozenset(one.node for one in results if one.verdict is NodeVerdict.BAD)
    well = {one.node for one in results if one.verdict in (NodeVerdict.GOOD, NodeVerdict.SUSPECT)} | passed
    widespread = len(bad) > 1 and 2 * len(bad) > len(results)
    return frozenset() if widespread else frozenset(name for name in bad if well - {name})


def usual_speed(check: NodeCheck, size: int, history: Iterable[Measurement], at: float) -> float | None:
    """Return the median speed of earlier tests of this size; None with fewer than five nodes."""
    numbers = list(_newest(history, size, at).values())
    return statistics.median(map(check.speed, numbers)) if len(numbers) >= MIN_HISTORY else None


def _newest(history: Iterable[Measurement], size: int, at: float) -> dict[NodeName, float]:
    found: dict[NodeName, tuple[float, float]] = {}
    for one in history:
        if one.size == size and at - WINDOW_S <= one.at <= at:
            found[one.node] = max(found.get(one.node, (one.at, one.number)), (one.at, one.number))
    return {name: number for name, (_, number) in found.items()}


def _others(numbers: Mapping[NodeName, float], node: NodeName) -> list[float]:
    return [number for name, number in numbers.items() if name != node]


def _worse(check: NodeCheck, number: float, others: Sequence[float]) -> str | None:
    """Return why a number is suspect; None where it is not, or where too few others are known."""
    if len(others) < MIN_HISTORY:
        return None
    usual = statistics.median(others)
    if check.speed(number) * check.slower_by >= check.speed(usual):
        return None
    return f"{number:.6g}, {usual:.6g} is usual on {len(others)} other nodes"


def _why(status: int, tail: Sequence[str]) -> str:
    said = next((line.strip() for line in reversed(tail) if line.strip()), "")
    known = _SHELL_CANNOT_RUN.get(status) or f"exit status {status}"
    return f"{known}: {said[:200]}" if said else known
