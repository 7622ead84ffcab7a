"""What one run costs the launcher a node as the run grows: CPU and bytes for environment, setup, start and look.

`python tests/bench/bench_run_size.py [NODES...]`; by default 1,024, 4,992 and 9,984. The transport is the real one,
over a shell whose machines answer at once. A figure is flat where the largest run costs at most 1.5 times as much a
node as the smallest; one that is not ends this with 1.
"""

import json
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from launcher.core.model.actions import Action
from launcher.core.model.receipt import Result
from launcher.core.model.run import Run, Slot
from launcher.drive.waves import AT_ONCE
from launcher.setup.environ import RunEnvironment
from launcher.transport.agent.addresses import Addresses
from launcher.transport.nodes import ShellNodes
from tests import agents
from tests.agents import Agents

SIZES = (1024, 4992, 9984)
FLAT = 1.5
PART = 256
"""Nodes that are measured together."""
TIMES = 5
"""How often what concerns all nodes at once is measured. Of these and of parts the cheapest counts: a machine that is
busy with something else makes none cheaper."""

Figures = dict[str, tuple[float, float]]
"""Microseconds of CPU and bytes a node, by what they are for."""


def measure(size: int, home: Path) -> Figures:
    """Return what a run of `size` nodes costs."""
    run = agents.make_run(size)
    shell = Agents(run)
    nodes = ShellNodes(Addresses(home, run.fleet, shell), shell, "bench@here")
    slots, found = agents.slots(run), Figures()

    def note(name: str, acts: Sequence[tuple[Callable[[], object], int]]) -> None:
        costs, sent, begun = [], shell.sent, time.monotonic()
        for act, count in acts:
            before = time.process_time()
            act()
            costs.append((time.process_time() - before) * 1e6 / count)
        found[name] = (min(costs), (shell.sent - sent) / sum(count for _, count in acts))
        wall = time.monotonic() - begun
        print(f"{size:6} {name:12}{found[name][0]:9.0f} us{found[name][1]:10.0f} bytes a node{wall:9.2f} s", flush=True)

    with ThreadPoolExecutor(AT_ONCE) as pool:

        def act(actions: Sequence[Action]) -> None:
            for answer in pool.map(lambda action: nodes.perform(run, action), actions):
                assert answer.result is Result.DONE, answer

        def for_each(make: Callable[[Slot], Action]) -> Sequence[tuple[Callable[[], object], int]]:
            parts = [slots[at : at + PART] for at in range(0, size, PART)]
            return [(partial(act, [make(slot) for slot in part]), len(part)) for part in parts]

        nodes.look(run)  # makes the connections
        act([agents.start_head()])
        note("environment", [(lambda: environment(run, shell), size)] * TIMES)
        note("acquire", for_each(agents.acquire))
        note("setup", for_each(agents.prepare))
        note("start", [(lambda: act([agents.start(run)]), size)] * TIMES)
        note("look", [(lambda: nodes.look(run), size)] * TIMES)
    nodes.close()
    return found


def environment(run: Run, shell: Agents) -> None:
    """Make the variables of the setup of each node and of each rank, as they are sent."""
    slots, made = agents.slots(run), RunEnvironment(run)
    shared = made.shared(slots)
    shell.count(len(shared.content))
    for slot in slots:
        node, member = made.index.nodes[slot.node], made.index.by_name[slot.member]
        setup = made.setup(node, member)
        rank = made.rank(shared, node, member, attempt=1, restarts=0, master_port=7000)
        shell.count(len(json.dumps([setup, rank])))


def main() -> int:
    """Print the figures and whether they are flat."""
    sizes = sorted(int(word) for word in sys.argv[1:]) or list(SIZES)
    threading.stack_size(256 << 10)  # a connection has a thread
    with tempfile.TemporaryDirectory() as folder:
        figures = {size: measure(size, Path(folder, str(size))) for size in sizes}
    least, most = figures[sizes[0]], figures[sizes[-1]]
    growing = 0
    for name in least:
        for kind, before, after in zip(("CPU", "bytes"), least[name], most[name], strict=True):
            growth = after / before if before else 1.0
            growing += growth > FLAT
            print(f"{name:12}{kind:6} x {growth:6.2f}  {'flat' if growth <= FLAT else 'GROWS'}")
    return 1 if growing else 0


if __name__ == "__main__":
    sys.exit(main())
