"""Results of `nvlaunch doctor` as a table and as JSON.

The table shows only what is bad or unknown, with evidence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.admission.doctor import Checkup
from launcher.admission.node_checks import Examined
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.nodeset import fold, without_own_name
from launcher.core.model.text import count
from launcher.probe.findings import CheckResult, Finding

_SHOWN = (CheckResult.BAD, CheckResult.CANNOT_TELL)
_EVIDENCE = 5
"""The most lines of evidence for a finding."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finding, the nodes or the rack that it is about, and its facts."""

    whose: str
    facts: str
    finding: Finding


def rows(found: Iterable[Examined]) -> tuple[Row, ...]:
    """Return the findings that are bad or unknown, the worst first.

    Equal ones of several nodes or facts are merged.
    """
    same: dict[tuple[str, CheckResult, bool, str, tuple[str, ...]], tuple[list[str], Finding]] = {}
    for one in found:
        for facts, finding in _of_node(one):
            message = without_own_name(one.node.name, finding.message)
            key = (facts, finding.result, finding.stops, message, finding.evidence)
            same.setdefault(key, ([], finding))[0].append(one.node.name)
    unsorted = [
        Row(whose=fold(names), facts=key[0], finding=replace(finding, message=key[3]) if len(names) > 1 else finding)
        for key, (names, finding) in same.items()
    ]
    return tuple(sorted(unsorted, key=_worst_first))


def _of_node(one: Examined) -> Iterator[tuple[str, Finding]]:
    """Yield the findings of a node.

    One that explains several facts, such as a driver that hangs, is yielded once.
    """
    same: dict[tuple[CheckResult, bool, str], list[Finding]] = {}
    for finding in one.findings:
        if finding.result in _SHOWN:
            same.setdefault((finding.result, finding.stops, finding.message), []).append(finding)
    for alike in same.values():
        yield ", ".join(finding.fact.value for finding in alike), alike[0]


def _worst_first(row: Row) -> tuple[int, bool]:
    return _SHOWN.index(row.finding.result), not row.finding.stops


def doctor_text(found: Checkup) -> str:
    """Return the table of findings, and the totals."""
    shown = [*rows(found.examined), *_shared(found)]
    shown.sort(key=_worst_first)
    lines = list(_table(shown)) if shown else []
    notes = [clean(f"note: {note}") for note in found.notes]
    return "\n".join((*lines, *(("",) if lines else ()), *notes, _totals(found)))


def _shared(found: Checkup) -> Iterator[Row]:
    """Yield findings about several nodes.

    Unknown ones are omitted if the findings of the nodes explain them.
    """
    unseen = {(one.node.name, own.fact) for one in found.examined for own in one.findings if own.result in _SHOWN}
    for shared in found.shared:
        finding = shared.finding
        new = finding.result is CheckResult.BAD or not all((name, finding.fact) in unseen for name in finding.nodes)
        if finding.result in _SHOWN and new:
            whose = fold(finding.nodes) if finding.nodes else shared.whose
            yield Row(whose=whose, facts=finding.fact.value, finding=finding)


def _table(shown: Sequence[Row]) -> Iterator[str]:
    cells = [
        (row.whose, row.facts, row.finding.result.value, "no" if row.finding.stops else "yes", row.finding.message)
        for row in shown
    ]
    header, *lines = table(("NODES", "FACT", "RESULT", "USABLE", "MESSAGE"), cells).split("\n")
    yield header
    for line, row in zip(lines, shown, strict=True):
        yield line
        evidence = [text for text in row.finding.evidence if text not in row.finding.message]
        yield from (clean(f"    | {text}") for text in evidence[:_EVIDENCE])
        if len(evidence) > _EVIDENCE:
            yield f"    | and {len(evidence) - _EVIDENCE} more"


def _totals(found: Checkup) -> str:
    by_result: dict[CheckResult, list[str]] = {}
    for one in found.examined:
        by_result.setdefault(found.answer(one), []).append(one.node.name)
    parts = [
        f"{len(names)} {result.value} ({fold(names)})"
        for result in (CheckResult.GOOD, *_SHOWN)
        if (names := by_result.get(result))
    ]
    return f"{count(len(found.examined), 'node')}: {', '.join(parts)}"


def doctor_json(fleet: str, found: Checkup) -> dict[str, object]:
    """Return all findings, including good ones, for `doctor -o json`."""
    return {
        "inventory": fleet,
        "nodes": [
            {
                "node": one.node.name,
                "rack": one.node.rack,
                "result": found.answer(one).name.lower(),
                "findings": [_plain(finding) for finding in one.findings],
            }
            for one in found.examined
        ],
        "shared": [
            {"of": shared.whose, "nodes": shared.finding.nodes, **_plain(shared.finding)} for shared in found.shared
        ],
        "notes": found.notes,
        "counts": _counts(found),
    }


def _counts(found: Checkup) -> dict[str, int]:
    results = [found.answer(one) for one in found.examined]
    return {result.name.lower(): results.count(result) for result in (CheckResult.GOOD, *_SHOWN)}


def _plain(finding: Finding) -> dict[str, object]:
    return {
        "fact": finding.fact.name.lower(),
        "result": finding.result.name.lower(),
        "stops": finding.stops,
        "message": finding.message,
        "evidence": finding.evidence,
    }
