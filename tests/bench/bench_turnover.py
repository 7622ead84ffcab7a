"""Runs that come and go on a large fleet: what a decision takes, and what each rule for a choice leaves usable.

`make bench` prints these figures. All rules get the same runs in the same order; a run that finds no place is turned
away. Nodes are stranded when they are free in a rack that no slice of 16 fits into any more.
"""

import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[2]))  # a script sees its own folder only

from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Unavailable
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from tests.bench.bench_place import RACKS, TRAYS, fleet

RUNS = 2_000
BIG = 16
GROUPS = 100
WATCHED = 4


@dataclass(frozen=True, slots=True)
class Ask:
    """So many slices of so many nodes, each in one rack."""

    slices: int
    nodes: int


@dataclass(slots=True)
class Tally:
    """What came of a rule: milliseconds of each decision, stranded nodes after each step, runs turned away."""

    spent: list[float] = field(default_factory=list)
    stranded: list[int] = field(default_factory=list)
    refused: int = 0
    refused_big: int = 0


Room = list[int]
Rule = Callable[[Room, Ask], list[int] | None]


def one_by_one(pick: Callable[[Sequence[int], Room, int], int]) -> Rule:
    """Return the rule that puts slices one after another where `pick` says, of the racks that hold one."""

    def rule(room: Room, ask: Ask) -> list[int] | None:
        left, chosen = list(room), []
        for _ in range(ask.slices):
            fits = [rack for rack in range(RACKS) if left[rack] >= ask.nodes]
            if not fits:
                return None
            chosen.append(pick(fits, left, ask.nodes))
            left[chosen[-1]] -= ask.nodes
        return chosen

    return rule


def kueue(room: Room, ask: Ask) -> list[int] | None:
    """Kueue's BestFit: whole slices first, so the racks that hold most of them, and only the last one the tightest."""
    left, chosen, missing = list(room), [], ask.slices
    while missing:
        holds = [(left[rack] // ask.nodes, rack) for rack in range(RACKS) if left[rack] >= ask.nodes]
        if not holds:
            return None
        enough = [(count, left[rack], rack) for count, rack in holds if count >= missing]
        rack = min(enough)[2] if enough else min(holds, key=lambda item: (-item[0], left[item[1]], item[1]))[1]
        count = min(missing, left[rack] // ask.nodes)
        chosen += [rack] * count
        left[rack] -= count * ask.nodes
        missing -= count
    return chosen


def slurm(room: Room, ask: Ask) -> list[int] | None:
    """Slurm's topology/block: of the aligned groups of 1, 2, 4... racks the one with the fewest sufficient free nodes,
    and in it the smallest rack that fits what remains, else the largest (eval_nodes_block.c)."""
    size = 1
    while size * TRAYS < ask.slices * ask.nodes:
        size *= 2
    starts = list(range(0, RACKS - size + 1, size)) if size <= RACKS else []
    able = [at for at in starts if sum(room[r] // ask.nodes for r in range(at, at + size)) >= ask.slices]
    if not able:
        size, able = RACKS, [0] if sum(free // ask.nodes for free in room) >= ask.slices else []
    if not able:
        return None
    start = min(able, key=lambda at: (sum(room[at : at + size]), at))
    left, chosen = list(room), []
    for _ in range(ask.slices):
        fits = [rack for rack in range(start, start + size) if left[rack] >= ask.nodes]
        rest = (ask.slices - len(chosen)) * ask.nodes
        enough = [rack for rack in fits if left[rack] >= rest]
        rack = min(enough, key=lambda r: (left[r], r)) if enough else max(fits, key=lambda r: (left[r], -r))
        chosen.append(rack)
        left[rack] -= ask.nodes
    return chosen


RULES: Mapping[str, Rule] = {
    "first-fit": one_by_one(lambda fits, _left, _need: fits[0]),
    "Kueue's best fit": kueue,
    "Slurm's rule": slurm,
}


class Ours:
    """Our placer over the whole fleet, every decision from the inventory and what is unavailable."""

    def __init__(self) -> None:
        self.fleet, self.unavailable, self.spent = fleet(), dict[NodeName, Unavailable](), list[float]()

    def __call__(self, room: Room, ask: Ask) -> list[int] | None:
        """Return the racks of the slices, and remember the nodes for `release`."""
        rule = TopologyRule(slices=ask.slices, nodes_per_slice=ask.nodes)
        asked = Task(name="run", groups=(Group(name="main", topology=rule, gpus=4, accelerator="GB300"),))
        begin = time.perf_counter()
        answer = self._place(asked, sum(free // ask.nodes for free in room) >= ask.slices)
        self.spent.append((time.perf_counter() - begin) * 1000)
        if answer is None:
            return None
        self.unavailable.update((name, Unavailable(used_by="run")) for name in answer.nodes)
        return [int(str(part.rack)[1:]) for part in answer.slices]

    def _place(self, asked: Task, fits: bool) -> Placement | None:
        """A refusal with all that would help takes longer and is no part of turnover; `bench_place` times it."""
        if not fits:
            return None
        answer = place(asked, self.fleet, self.unavailable)
        if not isinstance(answer, Placement):
            raise TypeError("refused where every slice has a rack")
        return answer

    def release(self, racks: Sequence[int], nodes: int) -> None:
        """Give back nodes of racks; which of their trays does not matter."""
        for rack in racks:
            held = [name for name in (f"r{rack:03d}-n{tray:02d}" for tray in range(TRAYS)) if name in self.unavailable]
            for name in held[:nodes]:
                del self.unavailable[NodeName(name)]


def asks(seed: int) -> list[tuple[Ask, float]]:
    """Return 2,000 runs, each with how long it stays, in runs that come after it: mostly small, some of many racks."""
    rnd = Random(seed)
    shapes = ((1, 1), (1, 2), (1, 4), (1, 4), (1, 8), (1, 8), (1, 12), (1, 16), (2, 12), (4, 16), (8, 16), (16, 16))
    return [(Ask(*rnd.choice(shapes)), rnd.expovariate(1 / 300)) for _ in range(RUNS)]


def turn_over(rule: Rule, ours: Ours | None = None) -> Tally:
    """Place and release the same runs by one rule."""
    room, tally = [TRAYS] * RACKS, Tally()
    live: list[tuple[float, list[int], int]] = []
    for at, (ask, stays) in enumerate(asks(5)):
        for _, racks, nodes in (one for one in live if one[0] <= at):
            for rack in racks:
                room[rack] += nodes
            if ours is not None:
                ours.release(racks, nodes)
        live = [one for one in live if one[0] > at]
        chosen = rule(room, ask)
        if chosen is None:
            tally.refused += 1
            tally.refused_big += ask.nodes == BIG
        else:
            for rack in chosen:
                room[rack] -= ask.nodes
            live.append((at + stays, chosen, ask.nodes))
        tally.stranded.append(sum(free for free in room if free < BIG))
    return tally


def roles() -> Task:
    """Return a task of a hundred groups of one to three slices, of which some go with others and some keep apart."""
    groups = tuple(
        Group(
            name=f"g{at:02d}",
            topology=TopologyRule(
                slices=1 + at % 3,
                nodes_per_slice=2 if at % 10 == 9 else 1 + at * 7 % 12,
                near=f"g{at - 1:02d}" if at % 10 == 9 else None,
                apart_from=f"g{at - 1:02d}" if at % 10 == 4 else None,
            ),
            gpus=(4, 4, 4, 2)[at % 4],
            accelerator="GB300",
        )
        for at in range(GROUPS)
    )
    return Task(name="roles", groups=groups)


def main() -> None:
    """Print what a decision takes, what each rule strands, and what a task of a hundred groups takes."""
    ours = Ours()
    tallies = {"nvlaunch": turn_over(ours, ours)} | {name: turn_over(rule) for name, rule in RULES.items()}
    spent = sorted(ours.spent)
    print(f"{RUNS:,} runs placed and released in turn on {RACKS * TRAYS:,} nodes")
    high = spent[len(spent) * 99 // 100]
    print(f"  one decision of nvlaunch: median {statistics.median(spent):.1f} ms, p99 {high:.1f} ms")
    print(f"  {'stranded nodes after':24}" + "".join(f"{at:>8,}" for at in marks()) + "    turned away (slices of 16)")
    for name, tally in tallies.items():
        figures = "".join(f"{statistics.mean(tally.stranded[at - 100 : at]):8.0f}" for at in marks())
        print(f"  {name:24}{figures}    {tally.refused} ({tally.refused_big})")
    asked, inventory, rounds = roles(), fleet(), []
    for _ in range(7):
        begin = time.perf_counter()
        answer = place(asked, inventory, {})
        rounds.append((time.perf_counter() - begin) * 1000)
        if not isinstance(answer, Placement):
            raise TypeError("the task of a hundred groups was refused")
    print(f"  {GROUPS} groups in one task: median {statistics.median(rounds):.1f} ms   target: under 200 ms")


def marks() -> range:
    """Return after how many runs the fleet is looked at; each figure is the mean of the hundred runs before."""
    return range(RUNS // WATCHED, RUNS + 1, RUNS // WATCHED)


if __name__ == "__main__":
    main()
