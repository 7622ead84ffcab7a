"""What a run costs the real driver and transport a node as it grows: launch, steady, faults, resize, down.

`python tests/bench/bench_scale.py [NODES...]`; by default 128, 1,024, 4,992 and 9,984 nodes of one run, and 10,008 of
40. The machines are stand-ins in a process of their own, whose CPU does not count; all but encryption and sshd is as
with real machines. Each size has a process of its own. A figure is flat where the largest run costs at most 1.5 times
as much a node as the smallest of 1,000 nodes or more. One that is not, and a goal that is missed, end this with 1.
`--one NODES RUNS` measures one size here; `--profile PATH` writes a profile for each kind of thread besides.
"""

import cProfile
import json
import os
import pstats
import re
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import launcher.drive.control
import launcher.transport.open
from launcher.admission.reallocate import StoreAllotter
from launcher.core.control.reconcile import Decision
from launcher.core.model.inventory import Access, ImexMode, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.operator_requests import RequestKind
from launcher.core.model.receipt import Result
from launcher.core.model.run import RunId, RunName, RunState
from launcher.core.model.simulation import SimSettings
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.drive.control import drive
from launcher.drive.loop import Loop
from launcher.drive.service import RunService
from launcher.ports import LearntKey, Listener
from launcher.probe import check_gpu
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown
from launcher.sim.prober import SimProber
from launcher.store.store import Store
from launcher.transport.agent.addresses import most_connections
from tests.standin.shell import Reader, StandInShell, Traffic, order

ONE_RUN, MANY_RUNS = (128, 1024, 4992, 9984), (10_008, 40)
FLAT, SMALLEST = 1.5, 1000
STEADY_S, SETTLE_S = 20.0, 8.0
PATIENCE_S = 3600.0
WORKDIR = 1 << 16
"""Bytes of the user's files, which cannot be packed."""

LAUNCH_MS, SHARE, MEMORY_MB, DECIDE_S, DOWN_S, BESIDES = 25.0, 25.0, 400.0, 3.0, 60.0, 100
"""The goals for 9,984 nodes: CPU a node, of a core, memory, time to a decision, CPU of `down`, connections besides one
a rack."""


Rows = Mapping[str, Mapping[str, float]]
"""Figures of each phase."""


class Watched:
    """The newest decision of each run, and when one first had something to do."""

    def __init__(self) -> None:
        self.states: dict[RunId, RunState] = {}
        self.acted: list[float] = []
        self.took: list[float] = []
        self.down = 0
        self.news = threading.Condition()
        self._tick = Loop.tick

    def tick(self, loop: Loop) -> Decision:
        """Tick, and take note of it."""
        begun = time.monotonic()
        decision = self._tick(loop)
        with self.news:
            self.took.append(time.monotonic() - begun)
            self.states[loop._run.id] = decision.state
            if decision.actions:
                self.acted.append(time.monotonic())
            self.news.notify_all()
        return decision

    def forget(self) -> None:
        """Begin anew: no decision counts that was made before."""
        with self.news:
            self.states.clear()
            self.acted.clear()
            self.took.clear()

    def wait(self, wanted: Callable[[], bool]) -> None:
        """Wait until something holds after a decision."""
        with self.news:
            assert self.news.wait_for(wanted, PATIENCE_S), self.states


class Bench:
    """One size: a store, its runs, and the process of their machines."""

    def __init__(self, home: Path, path: str, size: int, runs: int) -> None:
        self.size, self.traffic, self.only = size, Traffic(), os.environ.get("ONLY", "")
        self.store, self.watched, self._path = Store(home), Watched(), path
        reader = Reader()
        self.trays = 16 if runs == 1 else 18
        racks = size // self.trays
        self.fleet = hall(racks + 1, self.trays)
        self.rows: dict[str, dict[str, float]] = {}
        launcher.transport.open.open_shell = lambda home, fleet: StandInShell(
            home, path, self.traffic, reader, most_connections(fleet)
        )
        vars(launcher.drive.control)["open_prober"] = lambda home, fleet: RackProber(SimSettings())
        Loop.tick = lambda loop: self.watched.tick(loop)  # type: ignore[method-assign,assignment]
        folder = home / "work"
        folder.mkdir()
        (folder / "data").write_bytes(os.urandom(WORKDIR))
        shares = [racks // runs + (at < racks % runs) for at in range(runs)]
        self.tasks = [task(f"job-{at}", share, self.trays, folder) for at, share in enumerate(shares)]
        self.runs = [self._claim(one) for one in self.tasks]

    def _claim(self, wanted: Task) -> RunId:
        run = self.store.launch(
            name=RunName(wanted.name),
            task=wanted,
            fleet=self.fleet,
            decide=lambda taken: place(wanted, self.fleet, taken),
            source="bench",
            at=time.time(),
        )
        return run.id

    @contextmanager
    def phase(self, name: str, nodes: int) -> Iterator[dict[str, float]]:
        """Measure a phase."""
        found: dict[str, float] = {}
        self.traffic.most = self.traffic.open
        begun, used, sent, made = time.monotonic(), cpu(), self.traffic.bytes, self.traffic.made
        threads = threading.active_count()
        yield found
        wall, took = time.monotonic() - begun, cpu() - used
        found |= {
            "wall": wall,
            "cpu": took,
            "share": 100 * took / wall,
            "ms": 1000 * took / nodes,
            "bytes": (self.traffic.bytes - sent) / nodes,
            "connections": self.traffic.most,
            "made": self.traffic.made - made,
            "threads": max(threads, threading.active_count()),
            "memory": memory("VmRSS"),
            "peak": memory("VmHWM"),
            "tick": max(self.watched.took, default=0.0),
        }
        self.rows[name] = found
        print(
            f"{self.size:6} {name:8}{wall:8.1f} s{found['ms']:9.2f} ms{found['bytes']:10.0f} B a node"
            f"{found['share']:6.0f}% {found['connections']:6.0f} conn.{found['made']:7.0f} made"
            f"{found['threads']:6.0f} threads{found['memory']:6.0f} MB (peak {found['peak']:.0f})"
            f"  tick {found['tick']:.2f} s" + (f"  decided {found['decided']:.2f} s" if "decided" in found else ""),
            flush=True,
        )

    def run(self) -> None:
        """Go through all phases."""
        stop = threading.Event()
        drivers = [threading.Thread(target=self._drive, args=(stop,), name="driver")]
        with self.phase("launch", self.size):
            for driver in drivers:
                driver.start()
            self.watched.wait(self._all_run)
        if self.only == "launch":
            return
        time.sleep(SETTLE_S)
        self.watched.forget()
        with self.phase("steady", self.size):
            time.sleep(STEADY_S)
        faulty = self._addresses(100)
        self.watched.forget()
        with self.phase("faults", self.size) as found:
            begun = time.monotonic()
            order(self._path, {"op": "raylets", "machines": faulty})
            self.watched.wait(lambda: bool(self.watched.acted))
            found["decided"] = self.watched.acted[0] - begun
            self.watched.wait(self._all_run)
        self.watched.forget()
        if len(self.runs) == 1:
            with self.phase("resize", self.size):
                self._resize()
                self.watched.wait(self._resized)
                self.watched.wait(self._all_run)
        self.watched.forget()
        with self.phase("down", self.size):
            for run in self.runs:
                self.store.want_nothing(run)
            self.watched.wait(lambda: sum(state.final for state in self.watched.states.values()) == len(self.runs))
        stop.set()
        for driver in drivers:
            driver.join()

    def _drive(self, stop: threading.Event) -> None:
        if len(self.runs) == 1:
            drive(self.store, self.runs[0], stop.is_set, lambda line: print(line, flush=True))
        else:
            RunService(self.store.home, lambda _: None).drive(stop.is_set)

    def _all_run(self) -> bool:
        states = self.watched.states
        return len(states) == len(self.runs) and all(state is RunState.RUNNING for state in states.values())

    def _addresses(self, each: int) -> list[str]:
        """Return the addresses of one node in so many."""
        placed = {name for run in self.runs for name in self.store.load(run)[0].placement.nodes}
        return [node.access.address for node in self.fleet.nodes if node.name in placed][::each]

    def _resize(self) -> None:
        run, _ = self.store.load(self.runs[0])
        answer = StoreAllotter(self.store, lambda fleet: RackProber(SimSettings())).retarget(run, self._larger())
        assert answer.result is Result.DONE, answer
        self.store.requests.add(run.id, RequestKind.RESIZE, by="bench", at=time.time())

    def _larger(self) -> Task:
        (group,) = self.tasks[0].groups
        rule = replace(group.topology, slices=group.topology.slices + 1)
        return replace(self.tasks[0], groups=(replace(group, topology=rule),))

    def _resized(self) -> bool:
        return self._seen_other_state()

    def _seen_other_state(self) -> bool:
        return any(state is not RunState.RUNNING for state in self.watched.states.values())


def hall(racks: int, trays: int) -> Inventory:
    """Return an inventory of racks."""
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack:03}-n{tray:02}"),
            rack=RackName(f"r{rack:03}"),
            access=Access(address=f"10.{64 + rack // 250}.{rack % 250}.{10 + tray}", python="/opt/ray/bin/python"),
        )
        for rack in range(racks)
        for tray in range(trays)
    )
    known = {node.rack: domain_of(node) for node in nodes[::trays]}
    nodes = tuple(replace(node, domain=known[node.rack]) for node in nodes)
    head = Access(address="10.0.0.1", python="/opt/ray/bin/python")
    return Inventory(name="hall", transport=Transport.SSH, nodes=nodes, imex=ImexMode.OFF, head=head)


def domain_of(node: Node) -> str | None:
    """Return the domain that the prober will tell of a node."""
    (facts,) = RackProber(SimSettings()).probe([node], _Nobody()).values()
    assert isinstance(facts, Facts)
    return check_gpu.domain_of(facts)


class RackProber(SimProber):
    """Finds every node healthy, and each rack to be a domain."""

    def probe(
        self, nodes: Sequence[Node], listener: Listener, needs: TaskNeeds = NOTHING
    ) -> Mapping[NodeName, Facts | Unknown]:
        """Return the facts of each node."""
        return super().probe([replace(node, domain=None) for node in nodes], listener, needs)


class _Nobody:
    """Nobody waits for the prober."""

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Nothing."""

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Nothing."""

    def learnt(self, keys: Sequence[LearntKey]) -> None:
        """Nothing."""


def task(name: str, slices: int, nodes: int, folder: Path) -> Task:
    """Return a task of whole racks."""
    rule = TopologyRule(slices=slices, nodes_per_slice=nodes)
    group = Group(name="main", topology=rule, run="train", setup="prepare")
    return Task(name=name, groups=(group,), workdir=str(folder))


def cpu() -> float:
    """Seconds of CPU that this process has used, with those of its children."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def memory(what: str) -> float:
    """Megabytes of this process, as the kernel calls them."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) / 1024


def one(size: int, runs: int) -> Rows:
    """Measure one size."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/machines"
        argv = [sys.executable, "-m", "tests.standin.machines", path]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]) as machines:
            assert machines.stdout
            machines.stdout.readline()
            home = Path(folder, "home")
            home.mkdir()
            try:
                bench = Bench(home, path, size, runs)
                bench.run()
            finally:
                used = Path(f"/proc/{machines.pid}/stat").read_text().rsplit(")", 1)[1].split()
                print(f"{size:6} stand-ins{(int(used[11]) + int(used[12])) / os.sysconf('SC_CLK_TCK'):8.1f} s of CPU")
                machines.kill()
    return bench.rows


def main() -> int:
    """Measure all sizes, each in a process of its own; return 1 where a figure grows or a goal is missed."""
    words = [int(word) for word in sys.argv[1:] if word.isdigit()]
    sizes = [(size, 1) for size in words or ONE_RUN]
    if not words:
        sizes.append(MANY_RUNS)
    found: dict[int, Rows] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size, runs in sizes:
            out = Path(folder, str(size))
            argv = [sys.executable, __file__, "--one", str(size), str(runs), "--out", str(out)]
            if subprocess.run(argv).returncode == 0:
                found[size] = json.loads(out.read_text())
    single = {size: found[size] for size, runs in sizes if runs == 1 and size in found}
    return 1 if len(found) < len(sizes) or sum([*_growing(single), *_missed(single)]) else 0


def _growing(found: Mapping[int, Rows]) -> Iterator[bool]:
    sizes = sorted(size for size in found if size >= SMALLEST)
    if len(sizes) < 2:
        return
    least, most = found[sizes[0]], found[sizes[-1]]
    for phase in least:
        for what in ("ms", "bytes"):
            growth = most[phase][what] / max(least[phase][what], 1e-9)
            print(f"{phase:8}{what:6} x {growth:6.2f}  {'flat' if growth <= FLAT else 'GROWS'}")
            yield growth > FLAT


def _missed(found: Mapping[int, Rows]) -> Iterator[bool]:
    size = ONE_RUN[-1]
    if size not in found:
        return
    rows = found[size]
    for name, figure, goal in (
        ("ms of CPU a node to launch", rows["launch"]["ms"], LAUNCH_MS),
        ("% of a core while steady", rows["steady"]["share"], SHARE),
        ("MB of memory", max(row["peak"] for row in rows.values()), MEMORY_MB),
        ("connections", max(row["connections"] for row in rows.values()), size / 16 + BESIDES),
        ("s to a decision about faults", rows["faults"]["decided"], DECIDE_S),
        ("s of CPU to take it down", rows["down"]["cpu"], DOWN_S),
    ):
        print(f"{size}: {figure:8.1f} {name}, goal {goal:.0f}: {'met' if figure <= goal else 'MISSED'}")
        yield figure > goal


class Profiles:
    """Profiles all threads that are started in this process, by the first word of their names."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, cProfile.Profile]] = []
        run = threading.Thread.run

        def profiled(thread: threading.Thread) -> None:
            own = cProfile.Profile(time.thread_time)
            self._kept.append((re.split(r"[-_ ]", thread.name)[0], own))
            own.runcall(run, thread)

        threading.Thread.run = profiled  # type: ignore[method-assign,assignment]

    def dump(self, path: str) -> None:
        """Write a file for each kind of thread."""
        for kind in {kind for kind, _ in self._kept}:
            pstats.Stats(*(own for name, own in self._kept if name == kind)).dump_stats(f"{path}.{kind}")


if __name__ == "__main__":
    if "--one" not in sys.argv:
        sys.exit(main())
    at = sys.argv.index("--one")
    profiles = Profiles() if "--profile" in sys.argv else None
    try:
        rows = one(int(sys.argv[at + 1]), int(sys.argv[at + 2]))
        if "--out" in sys.argv:
            Path(sys.argv[sys.argv.index("--out") + 1]).write_text(json.dumps(rows))
    finally:
        if profiles is not None:
            profiles.dump(sys.argv[sys.argv.index("--profile") + 1])
    sys.stdout.flush()
    os._exit(0)
