"""Health of nodes as text and JSON.

Good nodes in one line, findings with their evidence.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.admission.doctor import Checkup
from launcher.admission.node_checks import Examined
from launcher.cli.output.console import clean
from launcher.cli.output.table import table
from launcher.core.model.nodeset import fold, without_own_name
from launcher.core.model.text import count
from launcher.probe.report import Answer, Finding

_TOLD = (Answer.BAD, Answer.CANNOT_TELL)
_EVIDENCE = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One finding: about which nodes or racks, and about which facts."""

    whose: str
    facts: str
    finding: Finding


def rows(found: Iterable[Examined]) -> tuple[Row, ...]:
    """Return the findings that are not good, worst first.

    Equal ones about several facts or nodes are one row.
    """
    same: dict[tuple[str, Answer, bool, str, tuple[str, ...]], tuple[list[str], Finding]] = {}
    for one in found:
        for facts, finding in _of_one(one):
            words = without_own_name(one.node.name, finding.message)
            key = (facts, finding.answer, finding.stops, words, finding.evidence)
            same.setdefault(key, ([], finding))[0].append(one.node.name)
    unsorted = [
        Row(whose=fold(names), facts=key[0], finding=replace(finding, message=key[3]) if len(names) > 1 else finding)
        for key, (names, finding) in same.items()
    ]
    return tuple(sorted(unsorted, key=_worst_first))


def _of_one(one: Examined) -> Iterator[tuple[str, Finding]]:
    """Return the findings about a node that are not good.

    Equal ones, as when a driver hangs, together.
    """
    same: dict[tuple[Answer, bool, str], list[Finding]] = {}
    for finding in one.findings:
        if finding.answer in _TOLD:
            same.setdefault((finding.answer, finding.stops, finding.message), []).append(finding)
    for alike in same.values():
        yield ", ".join(finding.fact.value for finding in alike), alike[0]


def _worst_first(row: Row) -> tuple[int, bool]:
    return _TOLD.index(row.finding.answer), not row.finding.stops


def doctor_text(found: Checkup) -> str:
    """Return the table of findings that are not good, and the summary."""
    told = [*rows(found.examined), *_shared(found)]
    told.sort(key=_worst_first)
    lines = list(_table(told)) if told else []
    return "\n".join((*lines, *(("",) if lines else ()), _sum(found)))


def _shared(found: Checkup) -> Iterator[Row]:
    """Return findings about several nodes that do not follow from single ones."""
    unseen = {(one.node.name, own.fact) for one in found.examined for own in one.findings if own.answer in _TOLD}
    for shared in found.shared:
        finding = shared.finding
        new = finding.answer is Answer.BAD or not all((name, finding.fact) in unseen for name in finding.nodes)
        if finding.answer in _TOLD and new:
            whose = fold(finding.nodes) if finding.nodes else shared.whose
            yield Row(whose=whose, facts=finding.fact.value, finding=finding)


def _table(told: Sequence[Row]) -> Iterator[str]:
    cells = [
        (row.whose, row.facts, row.finding.answer.value, "no" if row.finding.stops else "yes", row.finding.message)
        for row in told
    ]
    header, *lines = table(("NODES", "FACT", "RESULT", "USABLE", "FINDING"), cells).split("\n")
    yield header
    for line, row in zip(lines, told, strict=True):
        yield line
        shown = [text for text in row.finding.evidence if text not in row.finding.message]
        yield from (clean(f"    | {text}") for text in shown[:_EVIDENCE])
        if len(shown) > _EVIDENCE:
            yield f"    | and {len(shown) - _EVIDENCE} more"


def _sum(found: Checkup) -> str:
    by_answer: dict[Answer, list[str]] = {}
    for one in found.examined:
        by_answer.setdefault(found.answer(one), []).append(one.node.name)
    parts = [
        f"{len(names)} {answer.value} ({fold(names)})"
        for answer in (Answer.GOOD, *_TOLD)
        if (names := by_answer.get(answer))
    ]
    return f"{count(len(found.examined), 'node')}: {', '.join(parts)}"


def doctor_json(fleet: str, found: Checkup) -> dict[str, object]:
    """Return all findings, good ones included, for `doctor -o json`."""
    return {
        "inventory": fleet,
        "nodes": [
            {
                "node": one.node.name,
                "rack": one.node.rack,
                "answer": found.answer(one).name.lower(),
                "findings": [_plain(finding) for finding in one.findings],
            }
            for one in found.examined
        ],
        "shared": [
            {"of": shared.whose, "nodes": shared.finding.nodes, **_plain(shared.finding)} for shared in found.shared
        ],
        "counts": _counts(found),
    }


def _counts(found: Checkup) -> dict[str, int]:
    answers = [found.answer(one) for one in found.examined]
    return {answer.name.lower(): answers.count(answer) for answer in (Answer.GOOD, *_TOLD)}


def _plain(finding: Finding) -> dict[str, object]:
    return {
        "fact": finding.fact.name.lower(),
        "answer": finding.answer.name.lower(),
        "stops": finding.stops,
        "message": finding.message,
        "evidence": finding.evidence,
    }
