"""Runs one check on nodes, alone or in groups, until what is slow or bad among them is known."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeAlias

from launcher.core.checks.bisection import Slices, next_step
from launcher.core.checks.group_tests import FaultyPart, GroupResult, GroupTest, SlowPart
from launcher.core.checks.results import (
    WINDOW_S,
    CheckedNode,
    CheckGroup,
    Measurement,
    NodeVerdict,
    cannot_tell,
    mark_suspects,
    usual_speed,
)
from launcher.core.model.checks import CheckScope, NodeCheck
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId
from launcher.ports import Checker
from launcher.store.store import Store

FAN_OUT = 256
"""Tests at the same time; each costs a sleeping thread for each node."""

CUSHION_S = 60.0
"""What a test may take beyond its time limit (s): the way to the nodes, and its end there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TestsBegun:
    """Tests that begin now, all at the same time; each ends within `limit` seconds."""

    round: int
    tests: tuple[GroupTest, ...]
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class TestEnded:
    """A test and the result of each of its nodes."""

    test: GroupTest
    results: tuple[CheckedNode, ...]


CheckNews: TypeAlias = TestsBegun | TestEnded


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check says of nodes.

    `found` are slow nodes and links by tests on several nodes. `complete` is False where it was stopped, or its time
    was over, before all was known.
    """

    results: tuple[CheckedNode, ...]
    found: tuple[SlowPart, ...]
    ended: tuple[TestEnded, ...]
    rounds: int
    complete: bool

    @property
    def all_good(self) -> bool:
        """Whether each node is good, and no group of nodes is slow."""
        return len(self.of(NodeVerdict.GOOD)) == len(self.results) and not self.found

    def of(self, verdict: NodeVerdict) -> tuple[CheckedNode, ...]:
        """Return the results with a verdict."""
        return tuple(one for one in self.results if one.verdict is verdict)


class CheckRunner:
    """Runs one check of an inventory, and keeps its numbers.

    `name` says which check it is, `by` who runs it. `stopped` ends it early. `tell` hears of each test, in any thread.
    """

    def __init__(
        self,
        store: Store,
        fleet: Inventory,
        name: str,
        check: NodeCheck,
        checker: Checker,
        *,
        by: str,
        stopped: Callable[[], bool],
        tell: Callable[[CheckNews], None] = lambda _: None,
        idle: bool = False,
        beside: RunId | None = None,
    ) -> None:
        self._store, self._fleet, self._name, self._check, self._checker = store, fleet, name, check, checker
        self._by, self._idle, self._beside = by, idle, beside
        self._stopped, self._tell = stopped, tell
        self._nodes = {node.name: node for node in fleet.nodes}
        self._broken_off = threading.Event()

    @contextmanager
    def reserved(self, nodes: Sequence[NodeName]) -> Iterator[None]:
        """Have nodes during this block, so that no run is placed on them.

        ConflictError where a run or another check has one of them.
        """
        running, fleet = self._store.checks.running, self._fleet.name
        running.begin(fleet, nodes, self._name, idle=self._idle, beside=self._beside)
        try:
            yield
        finally:
            running.end(fleet, nodes)

    def alone(self, nodes: Sequence[NodeName]) -> CheckReport:
        """Check each node alone, all at the same time."""
        tests = tuple(GroupTest(nodes=(name,), reason="each node alone") for name in nodes)
        ended = self._run(1, tests)
        results = self._marked([one.results[0] for one in ended], 1)
        return CheckReport(results=results, found=(), ended=ended, rounds=1, complete=not self._stopped())

    def in_groups(self, parts: Sequence[Sequence[NodeName]], deadline: float) -> CheckReport:
        """Check groups of at least two nodes of one domain, and find what makes one slow or fail.

        No test begins that could take longer than until `deadline` (s, monotonic).
        """
        groups = tuple(tuple(part) for part in parts)
        size = max(map(len, groups), default=0)
        domains = {name: self._nodes[name].domain or self._nodes[name].rack for part in groups for name in part}
        usual = usual_speed(self._check, size, self._history(), time.time())
        slices = Slices(parts=groups, domains=domains, slower_by=self._check.slower_by, usual=usual)
        known: dict[frozenset[NodeName], GroupResult] = {}
        ended: list[TestEnded] = []
        rounds = 0
        while (step := next_step(slices, known)).tests:
            if self._stopped() or (rounds and time.monotonic() + self._check.limit > deadline):
                return self._report(groups, step.found, ended, rounds, complete=False)
            rounds += 1
            for one in self._run(rounds, step.tests):
                ended.append(one)
                known[frozenset(one.test.nodes)] = self._result(one.results)
        return self._report(groups, step.found, ended, rounds, complete=not self._stopped())

    def _run(self, number: int, tests: tuple[GroupTest, ...]) -> tuple[TestEnded, ...]:
        if not tests:
            return ()
        self._tell(TestsBegun(round=number, tests=tests, limit=self._check.limit))
        with ThreadPoolExecutor(min(FAN_OUT, len(tests)), thread_name_prefix="check") as pool:
            try:
                ended = tuple(pool.map(self._one, tests))
            except BaseException:  # Ctrl-C: the pool waits for its threads, and they for the nodes
                self._broken_off.set()
                raise
        at = time.time()
        for one in ended:
            kept = [(result, self._nodes[result.node].rack) for result in one.results if not result.waited]
            if not self._stopped():  # what was stopped says nothing
                self._store.checks.history.add(self._fleet.name, self._name, self._check, kept, len(one.results), at)
        return ended

    def _one(self, test: GroupTest) -> TestEnded:
        group = CheckGroup(
            name=self._name,
            check=self._check,
            nodes=tuple(self._nodes[name] for name in test.nodes),
            by=self._by,
            beside=self._beside,
            idle=self._idle,
        )
        results = self._checker.check(group, lambda: self._broken_off.is_set() or self._stopped())
        numbers = [one.number for one in results if one.number is not None]
        if len(results) > 1 and numbers:  # one number for the whole group: the worst that one of its nodes has printed
            worst = min(numbers, key=self._check.speed)
            results = tuple(replace(one, number=worst) if one.verdict is NodeVerdict.GOOD else one for one in results)
        ended = TestEnded(test=test, results=results)
        self._tell(ended)
        return ended

    def _result(self, results: Sequence[CheckedNode]) -> GroupResult:
        """Return what the search needs to know: one that does not end in a group counts as a failure of the group."""
        silent = [one for one in results if one.verdict is NodeVerdict.CANNOT_TELL]
        own = frozenset(one.node for one in silent if not one.timed_out and not one.waited)
        late = frozenset(one.node for one in silent if one.timed_out)
        bad = frozenset(one.node for one in results if one.verdict is NodeVerdict.BAD)
        number = next((one.number for one in results if one.number is not None), None)
        speed = None if number is None else self._check.speed(number)
        return GroupResult(speed=speed, bad=bad or late, unclear=own)

    def _report(
        self,
        groups: tuple[tuple[NodeName, ...], ...],
        found: tuple[SlowPart, ...],
        ended: Sequence[TestEnded],
        rounds: int,
        *,
        complete: bool,
    ) -> CheckReport:
        """Return the result of each node: its own where a search named it, else that of its group."""
        whole = {one.test.nodes: one.results for one in ended}
        results = {result.node: result for part in groups for result in whole.get(part, ())}
        named = {name: one for one in found for name in one.nodes}
        judged = tuple(
            self._named(name, named.get(name), ended, before, complete=complete) for name, before in results.items()
        )
        return CheckReport(results=judged, found=found, ended=tuple(ended), rounds=rounds, complete=complete)

    def _named(
        self,
        name: NodeName,
        part: SlowPart | None,
        ended: Sequence[TestEnded],
        before: CheckedNode,
        *,
        complete: bool,
    ) -> CheckedNode:
        if part is None and complete:
            return CheckedNode(node=name, verdict=NodeVerdict.GOOD, number=before.number, seconds=before.seconds)
        if part is None or part.part is FaultyPart.UNCLEAR:
            return before if part is None else _unclear(before, part)
        own = [result for one in ended for result in one.results if result.node == name]
        last = next((one for one in reversed(own) if one.verdict is not NodeVerdict.GOOD), before)
        if part.part is FaultyPart.NO_ANSWER:
            return last
        verdict = NodeVerdict.BAD if last.verdict is NodeVerdict.BAD or last.timed_out else NodeVerdict.SUSPECT
        message = part.message if verdict is NodeVerdict.SUSPECT else f"{part.message}: {last.message}"
        return CheckedNode(node=name, verdict=verdict, number=before.number, message=message, tail=last.tail)

    def _marked(self, results: Sequence[CheckedNode], size: int) -> tuple[CheckedNode, ...]:
        return mark_suspects(self._check, results, size, self._history(), time.time())

    def _history(self) -> tuple[Measurement, ...]:
        return self._store.checks.history.measurements(self._fleet.name, self._check, time.time() - WINDOW_S)


def _unclear(result: CheckedNode, part: SlowPart) -> CheckedNode:
    """Return the result of a node of a slow or failing group in which none is singled out, with what it has said."""
    message = f"{part.message}: {result.message}" if result.message else part.message
    return replace(cannot_tell(result.node, message), tail=result.tail)


def budget(check: NodeCheck) -> float:
    """Return how long a check with a search may take (s): three tests one after the other, ten for a whole slice."""
    return (check.limit + CUSHION_S) * (3 if check.on is CheckScope.NODE else 10)


def by_domain(nodes: Sequence[Node]) -> Mapping[str, list[NodeName]]:
    """Return the nodes of each NVLink domain, or of each rack where the domain is unknown."""
    found: dict[str, list[NodeName]] = {}
    for node in nodes:
        found.setdefault(node.domain or node.rack, []).append(node.name)
    return found
