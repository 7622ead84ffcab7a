"""The nodes of a run in an imaginary fleet.

Their rows are kept with the lives and views made of them until they change.
"""

from collections.abc import Mapping
from dataclasses import replace

from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import HeadView, NodeView, Reached, Seen, Sighting, Unseen
from launcher.core.model.run import Run, RunId
from launcher.core.model.simulation import Fault, FaultKind, SimSettings
from launcher.sim import faults, lives
from launcher.sim.clock import SimClock
from launcher.sim.lives import Circumstances, Life
from launcher.sim.ray import HeadLife, Raylets, SimTables, head_after, head_life, head_view, raylets_of
from launcher.sim.reach import Reach, merged, reach, within
from launcher.sim.sight import node_view
from launcher.sim.world import NEVER, Ray, Rows, SimHost, SimWorld, Watch, dump, load_host, load_world

HEAD = NodeName("head")
"""What the machine that the inventory names for Ray heads is called here; no fault befalls it but `head_killed`."""


class SimFleet:
    """The nodes of one run.

    `host` and `world` read the stored rows; a look takes what was read last, because only the run itself changes the
    rows of nodes that it has.
    """

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
        self._world = SimWorld()
        self._hosts: dict[NodeName, SimHost] = {}
        self._reach: Reach | None = None
        self._raylets: Raylets | None = None
        self._read_world()
        for node in run.fleet.nodes:
            text = self._rows.world(self._node_key(node.name))
            self._texts[node.name] = text
            self._hosts[node.name] = self._load(text)

    @property
    def run(self) -> Run:
        """Return the run of this fleet."""
        return self._run

    def look(self, now: float) -> Sighting:
        """Return what is seen of the run now.

        Made anew only for what may have changed since the last look.
        """
        if now >= self._nodes_until:
            self._nodes.clear()
            self._nodes_until = NEVER
        restless = False
        for name, life in self._every_life().items():
            if name not in self._nodes or life.restless(now):
                self._nodes[name] = node_view(life, name, self._run.id, now, head=bool(self._world.watches))
                self._nodes_until = min(self._nodes_until, life.after(now))
                restless = restless or life.restless(now)
        if self._head is None or restless or now >= self._head_until:
            head, around = self._head_life(), self._head_around()
            self._head = head_view(self._run, head, around, self._by_slot(), self._heard(now), now)
            self._head_until = min(self._nodes_until, head_after(head, around, now))
        return Sighting(nodes=dict(self._nodes), head=self._head, reached=self._reached(now))

    def next_change(self, now: float) -> float:
        """Return the first time after a time at which a node changes; NEVER for none."""
        return min(life.after(now) for life in self._every_life().values())

    def begin(self, now: float) -> None:
        """Start the clock of the run's faults, unless it runs."""
        if self.world().began_at is None:
            self.save_world(SimWorld(began_at=now))
            self._forget()

    def watched(self, now: float, node: str | None) -> tuple[Watch, ...]:
        """Return all places of the head, with that from now on."""
        before = self.world().watches
        return before if before and before[-1].node == node else (*before, Watch(since=now, node=node))

    def life(self, node: NodeName) -> Life:
        """Return the life of a node, by its stored row."""
        text = self._rows.world(self._node_key(node))
        if node not in self._hosts or text != self._texts.get(node):
            self._texts[node] = text
            self._keep(node, self._load(text))
        return self._life(node)

    def save(self, node: NodeName, host: SimHost) -> None:
        """Store a node's row."""
        text = dump(host)
        self._rows.save_world(self._node_key(node), text)
        self._texts[node] = text
        self._keep(node, host)

    def world(self) -> SimWorld:
        """Return the run's stored row."""
        if self._rows.world(self._run_key) != self._texts.get(self._run_key):
            self._read_world()
            self._forget()
        return self._world

    def save_world(self, world: SimWorld) -> None:
        """Store the run's row."""
        text = dump(world)
        self._rows.save_world(self._run_key, text)
        self._texts[self._run_key] = text
        moved, self._world = world.watches != self._world.watches, world
        self._head = None
        if moved:
            self._forget()

    def circumstances(self, node: NodeName) -> Circumstances:
        """Return the faults and silences of a node during the run."""
        if node not in self._around:
            self._around[node] = self._befalls(node)
        return self._around[node]

    def head_reachable(self, now: float) -> bool:
        """Whether the head's machine can be reached."""
        return within(self._head_around().silent, now) is None

    def machine_reachable(self, node: NodeName | None, now: float) -> bool:
        """Whether a machine where a head is, or was, can be reached.

        None is the one that the inventory names for heads.
        """
        return within(self.circumstances(node or HEAD).silent, now) is None

    def ray(self, now: float) -> Ray | None:
        """Return the run's Ray as it is stored now.

        None where it cannot be asked, or not yet.
        """
        ray = self.world().ray
        head = self._head_life()
        return ray if head is not None and head.answers(now) and self.head_reachable(now) else None

    def tables(self, ray: Ray, now: float) -> SimTables:
        """Return Ray's tables."""
        return SimTables(self._run, ray, self._by_slot(), now)

    def _by_slot(self) -> Raylets:
        if self._raylets is None:
            self._raylets = raylets_of(self._every_life())
        return self._raylets

    def head_lives(self, now: float) -> bool:
        """Whether a process of the run's head lives, ready or not."""
        head = self._head_life()
        return head is not None and now < head.dies

    def _head_life(self) -> HeadLife | None:
        ray = self._world.ray
        return head_life(ray, self._head_around()) if ray and ray.node == self._run.head else None

    def _head_around(self) -> Circumstances:
        return self.circumstances(self._run.head or HEAD)

    def _heard(self, now: float) -> Mapping[NodeName, float]:
        """Return the age of each node's last heartbeat to the head's agent (s)."""
        listens = self._world.watches[-1].since if self._world.watches else now
        return {
            name: min(max(life.unheard(now), now - life.agent_dies), now - listens)
            for name, life in self._every_life().items()
            if life.host.run == self._run.id and life.host.agent_at is not None
        }

    def _reached(self, now: float) -> Mapping[NodeName, Reached]:
        """Return what reachable nodes say of each unreachable one.

        One of another rack is asked, where there is one.
        """
        unseen = [name for name, view in self._nodes.items() if isinstance(view, Unseen)]
        asked = [name for name, view in self._nodes.items() if isinstance(view, Seen) and view.agent]
        if not unseen or not asked:
            return {}
        rack = {node.name: node.rack for node in self._run.fleet.nodes}
        return {
            name: Reached(
                by=min(asked, key=lambda other: (rack[other] == rack[name], other)),
                answers=self._life(name).answers(now),
            )
            for name in unseen
        }

    def _happen(self) -> tuple[Fault, ...]:
        began = self._world.began_at
        return lives.by_clock(self._settings.faults, began) if began is not None else ()

    def _befalls(self, node: NodeName) -> Circumstances:
        happen = self._happen()
        bastion = faults.silences(happen, FaultKind.BASTION_DOWN)
        if self._reach is None:
            self._reach = reach(happen, self._hosts, self._world.watches, self._run.id)
        if node == HEAD:
            killed = tuple(fault for fault in happen if fault.fault is FaultKind.HEAD_KILLED)
            stops = self._reach.lost
            return Circumstances(node=node, settings=self._settings, faults=killed, silent=bastion, stops=stops)
        own = tuple(fault for fault in happen if fault.node == node)
        cut = self._reach.cut.get(node, ())
        return Circumstances(
            node=node,
            settings=self._settings,
            faults=own,
            silent=merged((*bastion, *cut, *faults.silences(own, FaultKind.SSH_DOWN))),
            cut=cut,
            severed=self._reach.severed.get(node, ()),
            stops=self._reach.stops.get(node, ()),
            off_at=self._hosts[node].off_at if node in self._hosts else None,
        )

    def _keep(self, node: NodeName, host: SimHost) -> None:
        before = self._hosts.get(node, SimHost())
        self._hosts[node] = host
        listens = (before.run, before.agent_at, before.off_at) != (host.run, host.agent_at, host.off_at)
        troubled = self._reach is not None and any(self._reach.cut.values())
        if listens and (troubled or host.off_at is not None):
            self._forget()
        else:
            self._lives.pop(node, None)
            self._nodes.pop(node, None)
            self._head = self._raylets = None

    def _life(self, node: NodeName) -> Life:
        if node not in self._lives:
            self._lives[node] = lives.life(self._hosts[node], self.circumstances(node))
        return self._lives[node]

    def _every_life(self) -> Mapping[NodeName, Life]:
        return {node: self._life(node) for node in self._hosts}

    def _forget(self) -> None:
        """Forget all that was made of the rows: each life is made again when it is asked for."""
        self._around.clear()
        self._reach = None
        self._lives.clear()
        self._nodes.clear()
        self._head = self._raylets = None

    def _load(self, text: str | None) -> SimHost:
        """Return the node that a text describes.

        A free one where it is another run's whose agent has died, by that run's clock: a lease dies with the agent.
        """
        host = load_host(text)
        if host.run is None or host.run == self._run.id:
            return host
        clock = SimClock(self._rows, replace(self._run, id=RunId(host.run)))
        off = host.off_at is not None and (host.agent_at or 0.0) <= host.off_at
        return SimHost() if off or host.agent_dies <= clock.now() else host

    def _read_world(self) -> None:
        text = self._rows.world(self._run_key)
        self._texts[self._run_key] = text
        self._world = load_world(text)

    def _node_key(self, node: NodeName) -> str:
        return f"{self._run.fleet.name}/{node}"

    @property
    def _run_key(self) -> str:
        return f"{self._run.fleet.name}//{self._run.id}"
