"""What one run on an imaginary fleet costs as it grows: the commands, and the loop that drives it.

`python tests/bench/bench_fleet_size.py [RACKS...]`, of 18 nodes each; by default 57, 277 and 554 racks, which are 9,972
nodes. Commands are timed as a user waits for them, the start of an empty one beside them. The loop runs in this
process, so that its CPU is known: until all ranks run, a tick in which nothing has changed, and until all nodes are
released. A figure of the loop is flat where the largest run costs at most 1.5 times as much a node as the smallest;
one that is not ends this with 1. `--profile` shows where the time of the loop goes.
"""

import cProfile
import os
import pstats
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from launcher.admission.store_retry import StoreRetry
from launcher.core.control.reconcile import Decision
from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Run, RunName, RunState
from launcher.core.model.simulation import SimSettings
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.execute import Executor, Inline
from launcher.drive.loop import Loop
from launcher.sim.clock import SimClock
from launcher.sim.nodes import SimNodes
from launcher.store.store import Store

ROOT = Path(__file__).parents[2]
RACKS, TRAYS = (57, 277, 554), 18
FLAT = 1.5
STEADY_TICKS = 20
NVLAUNCH = [sys.executable, "-m", "launcher.cli"]
INVENTORY = """
name: hall
transport: sim
levels: [block, rack]
defaults: {gpus: 4, accelerator: GB300}
sim: {seed: 1, start_s: 3, run_s: 1000000000, speed: 60}
racks:
"""
TASK = """
name: big
resources: {{accelerators: GB300:4}}
topology: {{slices: {racks}, gpus_per_slice: 72, within: rack}}
run: train
"""


def commands(racks: int) -> dict[str, float]:
    """Return how long each command takes, and `up` until every rank runs (s)."""
    took: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as home:
        env = {**os.environ, "NVLAUNCH_HOME": home, "PYTHONPATH": str(ROOT)}
        task, fleet = Path(home, "task.yaml"), Path(home, "fleet.yaml")
        listed = (f'  r{at:03}: {{block: b{at // 8}, nodes: "r{at:03}-n[01-{TRAYS}]"}}\n' for at in range(racks))
        fleet.write_text(INVENTORY + "".join(listed))
        task.write_text(TASK.format(racks=racks))

        def run(*words: object) -> str:
            begun = time.monotonic()
            done = subprocess.run([*NVLAUNCH, *map(str, words)], env=env, check=True, capture_output=True, text=True)
            took[str(words[0])] = time.monotonic() - begun
            return done.stdout

        run("--help")
        begun = time.monotonic()
        run("up", "-y", "-d", task, "-i", fleet)
        up = took["up"]
        while f"{racks * TRAYS}/{racks * TRAYS}" not in run("status"):
            time.sleep(0.1)
        took["until running"] = time.monotonic() - begun
        run("racks", "-i", fleet)
        run("queue")
        run("down", "-y", "--all")
    return {"nothing": took.pop("--help"), **took, "up": up}


def loop(racks: int, watched: cProfile.Profile | None) -> dict[str, float]:
    """Return what the loop costs a node (us of CPU)."""
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack:03}-n{tray:02}"),
            rack=RackName(f"r{rack:03}"),
            domain=f"r{rack:03}",
            access=Access(address=f"r{rack:03}-n{tray:02}"),
        )
        for rack in range(racks)
        for tray in range(1, TRAYS + 1)
    )
    sim = SimSettings(run_s=1e9, speed=float("inf"))
    hall = Inventory(name="hall", transport=Transport.SIM, nodes=nodes, sim=sim)
    rule = TopologyRule(slices=racks, nodes_per_slice=TRAYS)
    task = Task(name="big", groups=(Group(name="main", topology=rule, gpus=4, run="true"),))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home))

        def launch() -> Run:
            return store.launch(
                name=RunName("big"),
                task=task,
                fleet=hall,
                decide=lambda taken: place(task, hall, taken),
                source="bench",
                at=time.time(),
            )

        def measured(name: str, act: Callable[[], object], times: int = 1) -> object:
            before = time.process_time()
            done = watched.runcall(act) if watched is not None and name != "launch" else act()
            found[name] = (time.process_time() - before) * 1e6 / len(nodes) / times
            return done

        run = measured("launch", launch)
        assert isinstance(run, Run)
        machines, clock = SimNodes(store.worlds), SimClock(store.worlds, run)
        driven = Loop(store, machines, clock, Executor(machines, Inline()), run.id, StoreRetry(lambda _: None))

        def until(reached: Callable[[Decision], bool], most: int = 1000) -> None:
            for _ in range(most):
                decision = driven.tick()
                if reached(decision):
                    return
                clock.wait(decision.wake_at, driven._has_news)

        measured("start", lambda: until(lambda decision: decision.state is RunState.RUNNING))
        until(lambda _: False, 3)
        measured("tick", lambda: until(lambda _: False, STEADY_TICKS), STEADY_TICKS)
        store.want_nothing(run.id)
        measured("down", lambda: until(lambda decision: decision.state.final))
        store.close()
    return found


def main() -> int:
    """Print the figures, and whether those of the loop are flat."""
    sizes = sorted(int(word) for word in sys.argv[1:] if word.isdigit()) or list(RACKS)
    watched = cProfile.Profile() if "--profile" in sys.argv else None
    shown: dict[int, dict[str, float]] = {}
    for racks in sizes:
        nodes = racks * TRAYS
        shown[racks] = loop(racks, watched)
        print(f"{nodes:6,} nodes, us of CPU a node: " + told(shown[racks], "{:.0f}"), flush=True)
        print(f"{'':14}a tick: {shown[racks]['tick'] * nodes / 1e3:.0f} ms", flush=True)
        if watched is None:
            print(f"{'':14}seconds: " + told(commands(racks), "{:.1f}"), flush=True)
    if watched is not None:
        pstats.Stats(watched).sort_stats("tottime").print_stats(40)
    least, most = shown[sizes[0]], shown[sizes[-1]]
    growth = {name: most[name] / least[name] for name in least}
    for name, times in growth.items():
        print(f"{name:8} x {times:5.2f} a node  {'flat' if times <= FLAT else 'GROWS'}")
    print(f"median x {statistics.median(growth.values()):.2f}")
    return 1 if any(times > FLAT for times in growth.values()) else 0


def told(found: dict[str, float], how: str) -> str:
    """Return figures with their names."""
    return ", ".join(f"{name} {how.format(value)}" for name, value in found.items())


if __name__ == "__main__":
    sys.exit(main())
