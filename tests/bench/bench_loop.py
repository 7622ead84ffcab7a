"""What it costs one process to drive 40 runs on 5,040 imaginary nodes in real time, and how late its decisions are.

Run by `make bench`; prints, asserts nothing. `--profile` shows where the time goes.
"""

import cProfile
import json
import pstats
import resource
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import RunId, RunName, RunState
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.loop import Loop
from launcher.drive.service import RunService
from launcher.store.store import Store

RUNS, RACKS, TRAYS = 40, 280, 18
WATCHED_S = 30.0
FAULTS = tuple(
    Fault(at=60.0 + 1.7 * at, node=NodeName(f"r{28 * at:03}-n{1 + at:02}"), fault=FaultKind.RAYLET_KILLED)
    for at in range(10)
)
"""Ten raylets that are killed while it is watched, each of another run."""


def fleet() -> Inventory:
    """Return 280 racks of 18 nodes."""
    names = [(f"r{rack:03}", f"r{rack:03}-n{tray:02}") for rack in range(RACKS) for tray in range(1, TRAYS + 1)]
    nodes = tuple(
        Node(name=NodeName(name), rack=RackName(rack), domain=rack, access=Access(address=name)) for rack, name in names
    )
    sim = SimSettings(run_s=1e9, speed=1.0, faults=FAULTS)
    return Inventory(name="hall", transport=Transport.SIM, nodes=nodes, sim=sim)


def launch(store: Store, hall: Inventory) -> list[RunId]:
    """Launch 40 runs of 7 slices x 17 nodes and a spare each."""
    rule = TopologyRule(slices=7, nodes_per_slice=17, spares=1)
    made = []
    for at in range(RUNS):
        task = Task(name=f"job-{at}", groups=(Group(name="main", topology=rule, gpus=4, run="true"),))
        run = store.launch(
            name=RunName(task.name),
            task=task,
            fleet=hall,
            decide=lambda taken, task=task: place(task, hall, taken),
            source="bench",
            at=time.time(),
        )
        made.append(run.id)
    return made


class Watched:
    """The ticks of all loops: how long each took (s), and how late it began after the one before was due."""

    def __init__(self) -> None:
        self.on = False
        self.took: list[float] = []
        self.late: list[float] = []
        self._due: dict[int, float] = {}
        self._tick = Loop.tick

    def tick(self, loop: Loop):
        begun = time.monotonic()
        decision = self._tick(loop)
        ended = time.monotonic()
        if self.on:
            self.took.append(ended - begun)
            if (due := self._due.get(id(loop))) is not None:
                self.late.append(max(0.0, begun - due))
        self._due[id(loop)] = ended + max(0.0, decision.wake_at - loop._clock.now())
        return decision


def cpu() -> float:
    """Seconds of CPU that this process has used."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def noticed(store: Store, runs: list[RunId]) -> list[float]:
    """How long after each raylet was killed something was decided about it (s)."""
    found = []
    for run in runs:
        acts = [event.at for event in store.journal.events(run) if event.reason in ("rejoin", "replace")]
        nodes = store.load(run)[0].placement.nodes
        # Faults count from the first action, in the time of the run's own clock, which began with this real one.
        at, real = map(float, (store.worlds.world(f"hall//{run}/clock") or "0 0").split())
        began = real + json.loads(store.worlds.world(f"hall//{run}") or "{}")["began_at"] - at
        found += [acts[0] - began - fault.at for fault in FAULTS if fault.node in nodes and acts]
    return found


def main() -> None:
    watched = Watched()
    Loop.tick = lambda loop: watched.tick(loop)  # type: ignore[method-assign]
    with tempfile.TemporaryDirectory() as home:
        store = Store(Path(home))
        begun = time.monotonic()
        runs = launch(store, fleet())
        print(f"{RUNS} runs on {RACKS * TRAYS} nodes placed in {time.monotonic() - begun:.1f} s")
        stop = threading.Event()
        herd = RunService(Path(home), lambda _: None)
        driver = threading.Thread(target=lambda: herd.drive(stop.is_set))
        begun, used = time.monotonic(), cpu()
        driver.start()
        while any(row.state is not RunState.RUNNING for row in store.runs()):
            time.sleep(0.2)
        took = time.monotonic() - begun
        print(f"all {RUNS * 7 * 17} ranks run after {took:.1f} s, at {100 * (cpu() - used) / took:.0f}% of a core")
        for what in ("steady", "with faults"):
            if what == "with faults":
                time.sleep(max(0.0, 58.0 - (time.monotonic() - begun)))
            watched.took.clear(), watched.late.clear()
            watched.on, since, used = True, time.monotonic(), cpu()
            time.sleep(WATCHED_S)
            share, watched.on = 100 * (cpu() - used) / (time.monotonic() - since), False
            print(
                f"{what}: {share:.0f}% of a core (target 50%), {len(watched.took)} ticks in {WATCHED_S:.0f} s, "
                f"median {1000 * statistics.median(watched.took):.0f} ms, "
                f"latest {1000 * max(watched.late):.0f} ms after it was due (target 1000 ms)"
            )
        waits = noticed(store, runs)
        print(f"{len(waits)} of {len(FAULTS)} faults decided upon, at the latest {max(waits, default=0):.1f} s after")
        stop.set()
        driver.join()


if __name__ == "__main__":
    if "--profile" in sys.argv:
        drive = Loop.drive

        def profiled(loop: Loop, stopped):
            own = cProfile.Profile()
            try:
                return own.runcall(drive, loop, stopped)
            finally:
                PROFILES.append(own)

        PROFILES: list[cProfile.Profile] = []
        Loop.drive = profiled  # type: ignore[method-assign]
        main()
        stats = pstats.Stats(PROFILES[0])
        for other in PROFILES[1:]:
            stats.add(other)
        stats.sort_stats("tottime").print_stats(35)
    else:
        main()
