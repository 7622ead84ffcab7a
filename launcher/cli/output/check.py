"""Checks of nodes as text and JSON."""

from collections.abc import Iterator

from launcher.admission.checks.by_hand import HandCheck
from launcher.admission.checks.execution import CheckReport, TestsBegun
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.checks.group_tests import FaultyPart, SlowPart
from launcher.core.checks.results import CheckedNode, NodeVerdict
from launcher.core.model.nodeset import fold, fold_messages
from launcher.core.model.text import count, span

_PARTS = {
    FaultyPart.NODE: "slow or bad node",
    FaultyPart.LINK: "slow link between",
    FaultyPart.UNCLEAR: "slow or bad together",
    FaultyPart.NO_ANSWER: "no answer",
}


def planned_text(planned: HandCheck) -> str:
    """Return what is about to be checked, and how long a test may take."""
    what = f"{count(len(planned.parts), 'slice')}, {count(sum(map(len, planned.parts)), 'node')}"
    where = what if planned.parts else f"{count(len(planned.nodes), 'node')}, each alone"
    lines = [f"check `{planned.name}`: {where}; up to {span(planned.check.limit)} a test"]
    if planned.busy:
        lines.append(f"skipped {fold(planned.busy)}: in use")
    if planned.single:
        lines.append(f"skipped {fold(planned.single)}: alone in its NVLink domain")
    return clean("\n".join(lines))


def news_text(news: object) -> str | None:
    """Return a line about tests that begin; None for other news."""
    if not isinstance(news, TestsBegun):
        return None
    reasons = list(dict.fromkeys(test.reason for test in news.tests))
    more = f"; and {len(reasons) - 3} others" if len(reasons) > 3 else ""
    return clean(f"round {news.round}: {count(len(news.tests), 'test')}: {'; '.join(reasons[:3])}{more}")


def check_text(planned: HandCheck, found: CheckReport, seconds: float) -> str:
    """Return a table of nodes that are not good, the numbers of slices, and what was found."""
    return "\n".join(_text(planned, found, seconds))


def check_json(fleet: str, planned: HandCheck, found: CheckReport) -> dict[str, object]:
    """Return the same for `check -o json`."""
    return {
        "inventory": fleet,
        "check": planned.name,
        "nodes": [
            {
                "node": one.node,
                "result": one.verdict.value,
                "number": one.number,
                "message": one.message,
                "tail": list(one.tail),
            }
            for one in found.results
        ],
        "found": [{"part": one.part.value, "nodes": list(one.nodes), "message": one.message} for one in found.found],
        "tests": [
            {
                "nodes": list(one.test.nodes),
                "reason": one.test.reason,
                "result": _worst(one.results).verdict.value,
                "number": next((each.number for each in one.results if each.number is not None), None),
            }
            for one in found.ended
        ],
        "rounds": found.rounds,
        "complete": found.complete,
        "skipped": [*planned.busy, *planned.single],
    }


def _text(planned: HandCheck, found: CheckReport, seconds: float) -> Iterator[str]:
    rows = [(fold(part), *_numbers(found, part)) for part in planned.parts]
    if not planned.parts and len(found.results) <= MANY:
        rows = [(one.node, one.verdict.value, _number(one.number)) for one in found.results]
    if rows:
        yield table(("NODES", "RESULT", "NUMBER"), rows)
    alone = [one for one in found.results if one.verdict is not NodeVerdict.GOOD and not found.found]
    for names, why in fold_messages((one.node, f"{one.verdict.value}: {one.message}") for one in alone):
        yield clean(f"{names}: {why}")
    yield from _tails(found.results)
    for part in found.found:
        yield from _found(part, found.results)
    if not found.complete:
        yield "stopped before all was known"
    totals = ", ".join(f"{len(own)} {verdict.value}" for verdict in NodeVerdict if (own := found.of(verdict)))
    tests = f"{count(len(found.ended), 'test')} in {count(found.rounds, 'round')}"
    took = f", {span(seconds)}" if seconds >= LONG_S else ""
    yield f"{count(len(found.results), 'node')}: {totals or 'no results'}; {tests}{took}"


LONG_S = 10.0
"""A check that took longer than this says how long (s)."""

MANY = 40
"""Up to so many nodes that are checked alone, each has a line."""


def _numbers(found: CheckReport, part: tuple[str, ...]) -> tuple[str, str]:
    ended = next((one for one in found.ended if one.test.nodes == part), None)
    if ended is None:
        return "", ""
    slow = any(set(one.nodes) & set(part) for one in found.found)
    worst = _worst(ended.results).verdict
    number = next((one.number for one in ended.results if one.number is not None), None)
    return NodeVerdict.SUSPECT.value if slow and worst is NodeVerdict.GOOD else worst.value, _number(number)


def _found(part: SlowPart, results: tuple[CheckedNode, ...]) -> Iterator[str]:
    """Return what was found, with what each of its nodes has said where the check cannot tell of it."""
    said = {one.node: one.message for one in results if one.verdict is NodeVerdict.CANNOT_TELL}
    if part.part in (FaultyPart.UNCLEAR, FaultyPart.NO_ANSWER):
        for names, why in fold_messages((name, said.get(name) or part.message) for name in part.nodes):
            yield clean(f"{_PARTS[part.part]} {names}: {why}")
    else:
        yield clean(f"{_PARTS[part.part]} {fold(part.nodes)}: {part.message}")


def _tails(results: tuple[CheckedNode, ...]) -> Iterator[str]:
    """Return the last output of nodes that did not pass; what several nodes have said, once."""
    alike: dict[tuple[str, ...], list[str]] = {}
    for one in results:
        if one.verdict in (NodeVerdict.BAD, NodeVerdict.CANNOT_TELL):
            alike.setdefault(one.tail, []).append(one.node)
    for tail, names in alike.items():
        yield from (clean(f"  {fold(names)} | {line}") for line in tail)


def _worst(results: tuple[CheckedNode, ...]) -> CheckedNode:
    order = (NodeVerdict.GOOD, NodeVerdict.SUSPECT, NodeVerdict.CANNOT_TELL, NodeVerdict.BAD)
    return max(results, key=lambda one: order.index(one.verdict))


def _number(number: float | None) -> str:
    return "" if number is None else f"{number:.6g}"
