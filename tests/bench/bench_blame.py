"""Failing programs of three users on an imaginary fleet of 54 nodes, of which one is bad: which nodes are quarantined?

`bench_blame.py [SEEDS]`. Placement and verdicts are those of the launcher; `tests/fake/test_blame.py` asserts figures.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random

from launcher.core.control.blame.node_evidence import PastFailure, avoided, excuse, judge
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName, fold
from launcher.core.model.placement import Placement, Unavailable, UnavailableNodes
from launcher.core.model.record import ProgramFailure
from launcher.core.model.run import MemberName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place

RUNS = 300
USERS = ("ann", "bob", "cem")
PROGRAMS = 8
SIZES = (1, 2, 4, 8, 8, 16)
BAD_CODES = (1, 135, 139)
"""A program on the bad node stops with an error of CUDA, SIGBUS or SIGSEGV."""
BAD_SHARE = 0.9
"""How often a run fails first on the bad node, if it has that node."""


class Bug(Enum):
    """How a program fails by itself."""

    NOT_FOUND = "all ranks exit with 127"
    TYPO = "all ranks exit with 1"
    CHECK = "some rank exits with 7"
    RANK_0 = "rank 0 exits with 1, and others are aborted"
    LAST = "the last rank exits with 2"
    ANY = "some rank exits with 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A program of a user, which has a number in its name if it is a sweep."""

    user: str
    name: str
    size: int
    bug: Bug
    sweep: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What came of one play.

    `found_after` counts the failures on the bad node until it was quarantined; None if it never was. `counted` has the
    nodes that three failures of different programs within the day would have quarantined.
    """

    bad: NodeName
    quarantined: tuple[NodeName, ...]
    found_after: int | None
    failures_on_bad: int
    counted: tuple[NodeName, ...]


def fleet() -> Inventory:
    """Return three racks of 18 nodes."""
    nodes = [
        Node(
            name=NodeName(f"r{rack}-n{tray:02d}"),
            rack=RackName(f"r{rack}"),
            domain=f"r{rack}",
            access=Access(address=f"10.0.{rack}.{tray}"),
            accelerator="GB300",
        )
        for rack in (1, 2, 3)
        for tray in range(1, 19)
    ]
    return Inventory(name="hall", transport=Transport.SIM, nodes=tuple(nodes))


def play(seed: int, *, busy: float, bad: bool = True) -> Result:
    """Play 300 failing runs, one after the other, beside others that have a share of the nodes.

    Without `bad` all nodes are well.
    """
    rnd, inventory = Random(seed), fleet()
    sick = rnd.choice(inventory.nodes).name
    programs = [_program(rnd, user, number) for user in USERS for number in range(PROGRAMS)]
    known: list[PastFailure] = []
    quarantined: dict[NodeName, int] = {}
    on_bad, number = 0, 0
    while number < RUNS:
        program = rnd.choice(programs)
        unavailable: UnavailableNodes = {
            **{node.name: Unavailable(used_by="others") for node in inventory.nodes if rnd.random() < busy},
            **{node: Unavailable(unhealthy="quarantined") for node in quarantined},
        }
        run = f"{program.name}-{number}" if program.sweep else program.name
        other = avoided(known, program.user, run)
        without = {other: Unavailable(unhealthy="avoided")} if other else {}
        placed = place(_task(program), inventory, {**unavailable, **without})
        if not isinstance(placed, Placement):
            placed = place(_task(program), inventory, unavailable)
        if not isinstance(placed, Placement):
            continue
        number += 1
        failure = _failure(rnd, program, placed.slices[0].nodes, sick if bad else None)
        known.append(PastFailure(user=program.user, run=run, failure=failure))
        on_bad += failure.node == sick and excuse(failure) is None
        if judge(failure.node, known).suspect:
            quarantined[failure.node] = on_bad
    return Result(
        bad=sick,
        quarantined=tuple(quarantined),
        found_after=quarantined.get(sick),
        failures_on_bad=on_bad,
        counted=tuple(_by_count(known)),
    )


def _program(rnd: Random, user: str, number: int) -> Program:
    return Program(
        user=user,
        name=f"{user}-{'abcdefgh'[number]}",
        size=rnd.choice(SIZES),
        bug=rnd.choice(tuple(Bug)),
        sweep=rnd.random() < 0.5,
    )


def _task(program: Program) -> Task:
    rule = TopologyRule(nodes_per_slice=program.size)
    return Task(name=program.name, groups=(Group(name="main", topology=rule, gpus=4, accelerator="GB300", run="x"),))


def _failure(rnd: Random, program: Program, nodes: tuple[NodeName, ...], bad: NodeName | None) -> ProgramFailure:
    ranks, last = len(nodes), len(nodes) - 1
    rank, code, alike = {
        Bug.NOT_FOUND: (0, 127, ranks),
        Bug.TYPO: (rnd.randrange(ranks), 1, ranks),
        Bug.CHECK: (rnd.randrange(ranks), 7, 1),
        Bug.RANK_0: (0, 1, 1),
        Bug.LAST: (last, 2, 1),
        Bug.ANY: (rnd.randrange(ranks), 1, 1),
    }[program.bug]
    if bad in nodes and program.bug not in (Bug.NOT_FOUND, Bug.TYPO) and rnd.random() < BAD_SHARE:
        rank, code, alike = nodes.index(bad), rnd.choice(BAD_CODES), 1
    return ProgramFailure(
        node=nodes[rank],
        member=MemberName(f"main/{rank}"),
        attempt=1,
        code=code,
        ranks=ranks,
        alike=alike,
        nodes=fold(nodes),
    )


def _by_count(known: list[PastFailure]) -> Iterator[NodeName]:
    names: dict[NodeName, set[str]] = {}
    for one in known:
        names.setdefault(one.failure.node, set()).add(one.run)
    return (node for node, found in names.items() if len(found) >= 3)


def main(seeds: int) -> None:
    """Print a table: for each share of busy nodes, what became of the bad node and of the others."""
    for busy in (0.0, 0.3, 0.6):
        found = [play(seed, busy=busy) for seed in range(seeds)]
        after = sorted(one.found_after for one in found if one.found_after is not None)
        wrong = sum(len(set(one.quarantined) - {one.bad}) for one in found)
        counted = sum(len(set(one.counted) - {one.bad}) for one in found) / seeds
        middle = after[len(after) // 2] if after else "-"
        print(
            f"{busy:4.0%} busy: healthy nodes quarantined {wrong}; bad node found in {len(after)} of {seeds} plays, "
            f"after {middle} failures there (most {after[-1] if after else '-'}); "
            f"three failures each would take {counted:.0f} healthy nodes"
        )
    well = sum(len(play(seed, busy=0.3, bad=False).quarantined) for seed in range(seeds))
    print(f"no bad node: nodes quarantined {well}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20)
