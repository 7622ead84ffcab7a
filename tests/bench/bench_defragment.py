"""How long a plan of moves takes on a full fleet, and how far its cost is above what any plan must cost.

`make bench` prints these figures. They are not asserted: the machine that runs the tests is not the one that counts.
With `highspy` installed the plans are also held against the bound of a mixed integer program, solved by HiGHS.
"""

import math
import statistics
import time
from collections.abc import Sequence
from random import Random
from typing import Any

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Slice, Unavailable
from launcher.core.model.run import RunName
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.planner.defragment import MovePlan, defragment
from launcher.core.planner.moves import MoveProblem
from launcher.core.planner.relocation import Fleet, PlacedTask, relocations, ways_to_want

RACKS = 556
TRAYS = 18
DOWN = 0.01
MOVABLE = 0.7
SEEDS = (1, 2, 3)
MORE = (4, 12, 32)
"""How many 16-node slices are wanted beyond those that have room."""

QUARTERS = ((4, 0.3), (8, 0.3), (12, 0.15), (16, 0.25))
UNEVEN = ((1, 0.1), (2, 0.1), (4, 0.25), (6, 0.1), (8, 0.25), (12, 0.1), (16, 0.1))
FLEETS: dict[str, dict[str, Any]] = {
    "any rack, 80% full": {"mix": QUARTERS, "load": 0.8, "left": 0.8, "best_fit": False},
    "any rack, 87% full": {"mix": QUARTERS, "load": 0.87, "left": 0.87, "best_fit": False},
    "best fit, 93% full, then 80%": {"mix": QUARTERS, "load": 0.93, "left": 0.8, "best_fit": True},
    "best fit, uneven sizes, 95% full, then 80%": {"mix": UNEVEN, "load": 0.95, "left": 0.8, "best_fit": True},
}
SLICES_OF_A_RUN = ((1, 0.7), (2, 0.15), (4, 0.1), (8, 0.05))


def hall() -> Inventory:
    """Return 10,008 nodes in 556 racks."""
    nodes = [
        Node(
            name=NodeName(f"r{rack:03d}-n{tray:02d}"),
            rack=RackName(f"r{rack:03d}"),
            domain=f"domain-{rack}",
            access=Access(address=f"10.{rack // 256}.{rack % 256}.{tray}"),
            accelerator="GB300",
            tray=tray,
        )
        for rack in range(RACKS)
        for tray in range(TRAYS)
    ]
    return Inventory(name="bench", transport=Transport.SIM, nodes=tuple(nodes))


class Churn:
    """Runs that come and go until three times the fleet has been used."""

    def __init__(
        self, seed: int, mix: Sequence[tuple[int, float]], load: float, left: float, *, best_fit: bool
    ) -> None:
        self._random = Random(seed)
        self._mix, self._best_fit = mix, best_fit
        self.sick = [sorted(tray for tray in range(TRAYS) if self._random.random() < DOWN) for _ in range(RACKS)]
        self.free = [TRAYS - len(sick) for sick in self.sick]
        whole = sum(self.free)
        self.runs: dict[int, list[tuple[int, int]]] = {}
        self._used = self._count = 0
        turned = 0
        while turned < 3 * whole:
            before = self._used
            if before >= load * whole or not self._arrive():
                self._depart()
            turned += max(0, self._used - before)
        while self._used > left * whole:
            self._depart()

    def _arrive(self) -> bool:
        size = self._random.choices(*zip(*self._mix, strict=True))[0]
        slices = self._random.choices(*zip(*SLICES_OF_A_RUN, strict=True))[0]
        run: list[tuple[int, int]] = []
        for _ in range(slices):
            roomy = [rack for rack in range(RACKS) if self.free[rack] >= size]
            if not roomy:
                for rack, had in run:
                    self.free[rack] += had
                return False
            rack = min(roomy, key=self.free.__getitem__) if self._best_fit else self._random.choice(roomy)
            self.free[rack] -= size
            run.append((rack, size))
        self.runs[self._count] = run
        self._count += 1
        self._used += size * slices
        return True

    def _depart(self) -> None:
        gone = self.runs.pop(self._random.choice(sorted(self.runs)))
        for rack, size in gone:
            self.free[rack] += size
            self._used -= size


def situation(inventory: Inventory, churn: Churn, seed: int) -> tuple[dict[NodeName, Unavailable], list[PlacedTask]]:
    """Return the nodes in use, and the runs that have them."""
    random = Random(seed)
    trays = [[tray for tray in range(TRAYS) if tray not in sick] for sick in churn.sick]
    unavailable = {
        NodeName(f"r{rack:03d}-n{tray:02d}"): Unavailable(unhealthy="sick")
        for rack, sick in enumerate(churn.sick)
        for tray in sick
    }
    placed: list[PlacedTask] = []
    for number, run in churn.runs.items():
        name = RunName(f"run-{number}")
        slices: list[Slice] = []
        for index, (rack, size) in enumerate(run):
            nodes = tuple(NodeName(f"r{rack:03d}-n{trays[rack].pop():02d}") for _ in range(size))
            unavailable.update(dict.fromkeys(nodes, Unavailable(used_by=name)))
            slices.append(
                Slice(
                    group="main",
                    index=index,
                    place=f"r{rack:03d}",
                    rack=RackName(f"r{rack:03d}"),
                    domain=f"domain-{rack}",
                    nodes=nodes,
                )
            )
        placed.append(
            PlacedTask(
                name=name,
                task=task(name, len(run), run[0][1]),
                placement=Placement(slices=tuple(slices)),
                movable=random.random() < MOVABLE,
                checkpoint_s=1800.0 if random.random() < 0.3 else 0.0,
            )
        )
    return unavailable, placed


def task(name: str, slices: int, nodes: int) -> Task:
    """Return a task of rack-local slices."""
    rule = TopologyRule(slices=slices, nodes_per_slice=nodes)
    return Task(name=name, groups=(Group(name="main", topology=rule, gpus=4, accelerator="GB300", run="true"),))


def mip_bound(problem: MoveProblem) -> float | None:
    """Return the bound of HiGHS on the cost (GPU-hours); None without highspy, infinity where no plan exists.

    Counts of slices by size that each pool takes, and which slices leave it; the order of steps is not asked for.
    """
    try:
        import highspy
    except ImportError:
        return None
    model = highspy.Highs()
    for option, value in (("output_flag", False), ("threads", 1), ("mip_max_nodes", 10_000)):
        model.setOptionValue(option, value)
    sizes = sorted({part.size for part in (*problem.slices, *problem.wanted)})
    leaves = [model.addBinary() for _ in problem.slices]
    pays = [model.addVariable(lb=0, ub=1, obj=cost) for cost in problem.gang_costs]
    for part, leave in zip(problem.slices, leaves, strict=True):
        model.addConstr(pays[part.gang] >= leave)
    takes: dict[int, list[Any]] = {size: [] for size in sizes}
    for pool, residents in enumerate(problem.residents()):
        most = problem.free[pool] + sum(problem.slices[at].size for at in residents)
        counts = {size: model.addIntegral(lb=0, ub=most // size) for size in sizes if size <= most}
        for size, count in counts.items():
            takes[size].append(count)
        freed = sum(problem.slices[at].size * leaves[at] for at in residents)
        if counts:
            model.addConstr(sum(size * count for size, count in counts.items()) <= problem.free[pool] + freed)
    for size in sizes:
        moved = sum(leave for part, leave in zip(problem.slices, leaves, strict=True) if part.size == size)
        wanted = sum(part.size == size for part in problem.wanted)
        model.addConstr(sum(takes[size]) >= moved + wanted)
    model.run()
    return float(model.getInfo().mip_dual_bound) / 3600.0


def gap(cost: float, bound: float | None) -> str:
    """Return how far a cost is above a bound, in percent."""
    return "-" if not bound or bound == math.inf else f"{(cost / bound - 1) * 100:.1f}%"


def main() -> None:
    """Print a line for each fleet and each number of slices wanted, and the medians."""
    inventory = hall()
    seconds: list[float] = []
    own: list[float] = []
    mixed: list[float] = []
    print(f"moves on {len(inventory.nodes):,} nodes in {RACKS} racks; target: under 2 s, median gap under 5%")
    for name, fleet in FLEETS.items():
        for seed in SEEDS:
            churn = Churn(seed, **fleet)
            unavailable, placed = situation(inventory, churn, seed)
            room = sum(free // 16 for free in churn.free)
            for more in MORE:
                wanted = task("wanted", room + more, 16)
                start = time.process_time()
                plan = defragment(wanted, inventory, unavailable, placed)
                seconds.append(time.process_time() - start)
                head = f"  {name:44} {sum(map(len, churn.runs.values())):5} slices, {room:3} + {more:2} wanted"
                if not isinstance(plan, MovePlan):
                    print(f"{head}: {plan.reason}, proven: {plan.proven}; {seconds[-1]:.2f} s")
                    continue
                hall_now = Fleet(inventory, unavailable, wanted)
                bound = mip_bound(relocations(hall_now, placed, ways_to_want(hall_now, wanted)[0]).problem)
                own.append(plan.gpu_hours / plan.bound_gpu_hours - 1)
                if bound:
                    mixed.append(plan.gpu_hours / bound - 1)
                print(
                    f"{head}: {len(plan.moves):3} moves in {len(plan.steps):3} steps, {plan.gpu_hours:6.1f} GPU-hours, "
                    f"gap {gap(plan.gpu_hours, plan.bound_gpu_hours)} to our bound, {gap(plan.gpu_hours, bound)} to "
                    f"HiGHS's; {seconds[-1]:.2f} s"
                )
    print(f"  CPU time: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s")
    for who, gaps in (("our bound", own), ("HiGHS's bound", mixed)):
        if gaps:
            print(f"  gap to {who}: median {statistics.median(gaps):.1%}, most {max(gaps):.1%}")


if __name__ == "__main__":
    main()
