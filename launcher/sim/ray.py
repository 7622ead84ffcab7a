"""Ray's tables in an imaginary fleet, as real Ray 2.60 was measured."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import (
    GroupReport,
    GroupState,
    Head,
    HeadSeen,
    HeadView,
    Phase,
    RayNode,
    Step,
    Unseen,
)
from launcher.core.model.placement import Slice
from launcher.core.model.receipt import Bundle
from launcher.core.model.run import Run, is_spare
from launcher.core.model.run_index import index_of
from launcher.core.model.simulation import FaultKind
from launcher.sim.lives import Circumstances, Life, RayletLife
from launcher.sim.reach import within
from launcher.sim.world import NEVER, Ray

INFEASIBLE = "INFEASIBLE"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadLife:
    """When the Ray head of a run is ready, and when it dies.

    `power` is when its agent ended with its machine.
    """

    ray: Ray
    ready: float
    dies: float
    power: float

    def answers(self, now: float) -> bool:
        """Whether Ray and the supervisor can be asked."""
        return self.ready <= now < self.dies


def head_life(ray: Ray, around: Circumstances) -> HeadLife:
    """Return how long the newest process of a head lives on its machine."""
    begun = ray.begun_at
    power = around.dark(begun)
    dies = min(power, around.killed(begun, FaultKind.HEAD_KILLED), around.self_stop(begun))
    return HeadLife(ray=ray, ready=begun + around.start_s(begun), dies=dies, power=power)


Raylets = Mapping[str, Sequence[tuple[NodeName, RayletLife]]]
"""The raylets that were ever begun, with their nodes, by slot."""


def raylets_of(lives: Mapping[NodeName, Life]) -> Raylets:
    """Return the raylets of nodes by slot."""
    found: dict[str, list[tuple[NodeName, RayletLife]]] = {}
    for name, life in lives.items():
        for one in life.raylets:
            found.setdefault(one.raylet.slot, []).append((name, one))
    return found


class SimTables:
    """Ray's tables of one run, asked at one moment. A question about one slice takes the time of that slice."""

    def __init__(self, run: Run, ray: Ray, raylets: Raylets, now: float) -> None:
        self._index = index_of(run)
        self._ray = ray
        self._now = now
        self._raylets = raylets

    def nodes(self) -> Iterator[RayNode]:
        """Return every raylet that ever joined.

        One that died unnoticed is still alive to Ray.
        """
        for name, one in (found for of_slot in self._raylets.values() for found in of_slot):
            if self._joined(one):
                raylet, alive, domain = one.raylet, one.trusted(self._now), self._index.nodes[name].domain
                yield RayNode(slot=raylet.slot, generation=raylet.generation, domain=domain, alive=alive)

    def groups(self) -> Iterator[GroupReport]:
        """Return the placement group of every slice that one was asked for, and those that hold spares."""
        for part in self._index.slices.values():
            if part.key in self._ray.groups:
                yield self.group(part)
        for name in self._ray.groups:
            if is_spare(name):
                yield self._holding(name)

    def group(self, part: Slice) -> GroupReport:
        """Return a slice's group.

        CREATED while a raylet in its domain lives for each of its labels, as far as Ray knows, and no other group has
        all of that node.
        """
        slots = [list(self._inside(label, part)) for label in self._labels(part)]
        holders = [self._holder(slot) for slot in slots]
        state = GroupState.CREATED
        if None in holders:
            state = GroupState.RESCHEDULING if self._was_created(part, slots) else GroupState.PENDING
        bundles = tuple(
            self._bundle(at, holder if state is not GroupState.PENDING else None) for at, holder in enumerate(holders)
        )
        hint = "" if state is GroupState.CREATED else INFEASIBLE
        return GroupReport(slice=part.key, state=state, hint=hint, bundles=bundles)

    def _joined(self, one: RayletLife) -> bool:
        return one.raylet.begun_at >= self._ray.since and one.known(self._now)

    def _inside(self, label: str, part: Slice) -> Iterator[tuple[NodeName, RayletLife]]:
        if self._taken(label, part.key):
            return
        for name, one in self._raylets.get(label, ()):
            if self._joined(one) and part.domain in (None, self._index.nodes[name].domain):
                yield name, one

    def _labels(self, part: Slice) -> tuple[str, ...]:
        asked = self._ray.groups[part.key].labels
        return asked or tuple(member.slot for member in self._index.by_slice[part.key])

    def _taken(self, label: str, by: str) -> bool:
        """Whether what holds a spare came before a slice's group."""
        held = self._ray.groups.get(label)
        return held is not None and held.since <= self._ray.groups[by].since

    def _holding(self, label: str) -> GroupReport:
        """Return the group that holds a spare."""
        alive = any(self._joined(one) and one.trusted(self._now) for _, one in self._raylets.get(label, ()))
        theirs = any(
            label in self._labels(part) and not self._taken(label, part.key)
            for part in self._index.slices.values()
            if part.key in self._ray.groups
        )
        state = GroupState.CREATED if alive and not theirs else GroupState.PENDING
        return GroupReport(slice=label, state=state, hint="" if state is GroupState.CREATED else INFEASIBLE)

    def _holder(self, slot: Iterable[tuple[NodeName, RayletLife]]) -> tuple[NodeName, RayletLife] | None:
        alive = [(name, one) for name, one in slot if one.trusted(self._now)]
        return max(alive, key=lambda found: found[1].raylet.generation, default=None)

    def _was_created(self, part: Slice, slots: Sequence[Sequence[tuple[NodeName, RayletLife]]]) -> bool:
        asked = self._ray.groups[part.key].since
        moments = {asked, *(one.ready for slot in slots for _, one in slot if asked < one.ready <= self._now)}
        return any(all(any(one.trusted(at) for _, one in slot) for slot in slots) for at in moments)

    def _bundle(self, index: int, holder: tuple[NodeName, RayletLife] | None) -> Bundle:
        if holder is None:
            return Bundle(index=index, slot=None, domain=None)
        name, one = holder
        raylet = one.raylet
        return Bundle(
            index=index, slot=raylet.slot, domain=self._index.nodes[name].domain, generation=raylet.generation
        )


def head_view(
    run: Run,
    head: HeadLife | None,
    around: Circumstances,
    raylets: Raylets,
    heard: Mapping[NodeName, float],
    now: float,
) -> HeadView:
    """Return what a look at the head's machine finds.

    `heard` are the ages of heartbeats.
    """
    if within(around.silent, now):
        return Unseen(message=f"no answer from `{around.node}`")
    if head is None or head.power <= now:
        return HeadSeen()
    if now >= head.dies:
        ended = Step(phase=Phase.FAILED, exit_code=1, tail=("the GCS was killed",), generation=head.ray.cluster)
        return HeadSeen(head=Head(ray=ended, heard=heard))
    running = Step(phase=Phase.RUNNING, generation=head.ray.cluster)
    if now < head.ready:
        return HeadSeen(head=Head(ray=running, heard=heard))
    tables = SimTables(run, head.ray, raylets, now)
    nodes, groups = tuple(tables.nodes()), tuple(tables.groups())
    return HeadSeen(head=Head(ray=running, ready=True, nodes=nodes, groups=groups, heard=heard))


def head_after(head: HeadLife | None, around: Circumstances, now: float) -> float:
    """Return the first time after a time at which the head's machine changes.

    NEVER if it will not.
    """
    moments = [at for stretch in around.silent for at in stretch]
    moments += [head.ready, head.dies] if head else []
    return min((at for at in moments if at > now), default=NEVER)
