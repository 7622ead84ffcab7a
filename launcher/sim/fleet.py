"""A run's nodes in an imaginary fleet: their rows, kept with the lives and views made of them until they change."""

from launcher.core.fleet import Fault, FaultKind, NodeName, SimSettings
from launcher.core.observation import HeadView, NodeView, Sighting
from launcher.core.run import Run
from launcher.sim import faults, lives
from launcher.sim.lives import Circumstances, Life
from launcher.sim.ray import HeadLife, Tables, head_after, head_life, head_view
from launcher.sim.sight import node_view
from launcher.sim.world import NEVER, Host, Ray, Rows, World, dump, load_host, load_world

HEAD = NodeName("head")
"""What the machine that the inventory names for Ray heads is called here; no fault befalls it but `head_killed`."""


class Fleet:
    """The nodes of one run. `host` and `world` read the stored rows afresh; a look takes what was read last, for
    nobody but the run itself changes the rows of nodes that it holds."""

    def __init__(self, run: Run, rows: Rows) -> None:
        self._run = run
        self._rows = rows
        self._settings = run.fleet.sim or SimSettings()
        self._texts: dict[str, str | None] = {}
        self._lives: dict[NodeName, Life] = {}
        self._around: dict[NodeName, Circumstances] = {}
        self._nodes: dict[NodeName, NodeView] = {}
        self._nodes_until = -NEVER
        self._head: HeadView | None = None
        self._head_until = -NEVER
        self._world = World()
        self._read_world()
        for node in run.fleet.nodes:
            self.life(node.name)

    def look(self, now: float) -> Sighting:
        """Answer what is seen of the run now; made anew only for what may have changed since the last look."""
        if now >= self._nodes_until:
            self._nodes.clear()
            self._nodes_until = NEVER
        for name, life in self._lives.items():
            if name not in self._nodes:
                self._nodes[name] = node_view(life, name, self._run.id, now)
                self._nodes_until = min(self._nodes_until, life.after(now))
        if self._head is None or now >= self._head_until:
            head, around = self._head_life(), self._head_around()
            self._head = head_view(self._run, head, around, self._lives, now)
            self._head_until = min(self._nodes_until, head_after(head, around, now))
        return Sighting(nodes=dict(self._nodes), head=self._head)

    def begin(self, now: float) -> None:
        """Count the faults of the run from now on, if they are not counted yet."""
        if self.world().began_at is None:
            self.save_world(World(began_at=now))
            self._forget()

    def life(self, node: NodeName) -> Life:
        """Answer the life of a node, by its row as it is stored now."""
        text = self._rows.world(self._node_key(node))
        if node not in self._lives or text != self._texts.get(node):
            self._texts[node] = text
            self._live(node, load_host(text))
        return self._lives[node]

    def save(self, node: NodeName, host: Host) -> None:
        """Keep a node's row."""
        text = dump(host)
        self._rows.save_world(self._node_key(node), text)
        self._texts[node] = text
        self._live(node, host)

    def world(self) -> World:
        """Answer the run's row as it is stored now."""
        if self._rows.world(self._run_key) != self._texts.get(self._run_key):
            self._read_world()
            self._forget()
        return self._world

    def save_world(self, world: World) -> None:
        """Keep the run's row."""
        text = dump(world)
        self._rows.save_world(self._run_key, text)
        self._texts[self._run_key] = text
        self._world = world
        self._head = None

    def circumstances(self, node: NodeName) -> Circumstances:
        """Answer what befalls a node during the run."""
        if node not in self._around:
            self._around[node] = self._befalls(node)
        return self._around[node]

    def head_reachable(self, now: float) -> bool:
        """Answer whether the head's machine can be seen."""
        return not any(begins <= now < ends for begins, ends in self._head_around().silent)

    def ray(self, now: float) -> Ray | None:
        """Answer the run's Ray as it is stored now; None where it cannot be asked, or not yet."""
        ray = self.world().ray
        head = self._head_life()
        return ray if head is not None and head.answers(now) and self.head_reachable(now) else None

    def tables(self, ray: Ray, now: float) -> Tables:
        """Answer what Ray's tables say."""
        return Tables(self._run, ray, self._lives, now)

    def head_lives(self, now: float) -> bool:
        """Answer whether a process of the run's head lives, ready or not."""
        head = self._head_life()
        return head is not None and now < head.dies

    def _head_life(self) -> HeadLife | None:
        return head_life(self._world.ray, self._head_around()) if self._world.ray else None

    def _head_around(self) -> Circumstances:
        return self.circumstances(self._run.head or HEAD)

    def _befalls(self, node: NodeName) -> Circumstances:
        began = self._world.began_at
        happen = lives.by_clock(self._settings.faults, began) if began is not None else ()
        if node == HEAD:
            killed = tuple(fault for fault in happen if fault.fault is FaultKind.HEAD_KILLED)
            return Circumstances(node=node, settings=self._settings, faults=killed)
        own = tuple(fault for fault in happen if fault.node == node)
        return Circumstances(node=node, settings=self._settings, faults=own, severed=self._severed(node, happen))

    def _severed(self, node: NodeName, happen: tuple[Fault, ...]) -> tuple[tuple[float, float], ...]:
        head = self._run.head
        if node == head:
            return ()
        own = tuple(fault for fault in happen if fault.node == node)
        there = tuple(fault for fault in happen if fault.node == head)
        links = faults.silences(own, FaultKind.LINK_DOWN)
        return links + faults.silences(there, FaultKind.POWER_CUT, FaultKind.LINK_DOWN)

    def _live(self, node: NodeName, host: Host) -> None:
        self._lives[node] = lives.life(host, self.circumstances(node))
        self._nodes.pop(node, None)
        self._head = None

    def _forget(self) -> None:
        self._around.clear()
        for node, life in list(self._lives.items()):
            self._live(node, life.host)

    def _read_world(self) -> None:
        text = self._rows.world(self._run_key)
        self._texts[self._run_key] = text
        self._world = load_world(text)

    def _node_key(self, node: NodeName) -> str:
        return f"{self._run.fleet.name}/{node}"

    @property
    def _run_key(self) -> str:
        return f"{self._run.fleet.name}//{self._run.id}"
