"""Actions on the Ray of an imaginary fleet: head, groups, ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from launcher.core.model.actions import Park, Release, Reserve, Start, StartHead, Unreserve, Verify
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import GroupState
from launcher.core.model.receipt import Answer, Bundle, Result
from launcher.core.model.run import Member, MemberName, Run, Slot, spare_label
from launcher.core.model.run_index import index_of
from launcher.sim.fleet import HEAD, SimFleet
from launcher.sim.node_acts import DONE, KILLED, failed, silent
from launcher.sim.world import Rank, Ray, RayGroup


def start_head(fleet: SimFleet, run: Run, action: StartHead, now: float) -> Answer:
    """Begin a Ray head, with the tables of the one before it.

    Nothing where one lives.
    """
    fleet.begin(now)
    if not fleet.head_reachable(now):
        return silent(run.head or HEAD, action.kind)
    world = fleet.world()
    if not fleet.head_lives(now):
        before = world.ray
        if before is None or (before.node, before.cluster) != (run.head, action.cluster):
            before = Ray(since=now, begun_at=now, groups={}, node=run.head, cluster=action.cluster)
        begun = replace(before, begun_at=now)
        fleet.save_world(replace(world, ray=begun, watches=fleet.watched(now, run.head)))
    return DONE


def reserve(fleet: SimFleet, run: Run, action: Reserve, now: float) -> Answer:
    """Ask for a slice's placement group; nothing where it was asked for."""
    if (ray := fleet.ray(now)) is None:
        return _headless(run, action.kind)
    if action.slice not in ray.groups:
        _keep(fleet, ray, {**ray.groups, action.slice: RayGroup(since=now, labels=action.labels)})
    return DONE


def park(fleet: SimFleet, run: Run, action: Park, now: float) -> Answer:
    """Ask for the placement group that holds a spare; nothing where it was asked for."""
    if (ray := fleet.ray(now)) is None:
        return _headless(run, action.kind)
    label = spare_label(action.slot.generation)
    if label not in ray.groups:
        _keep(fleet, ray, {**ray.groups, label: RayGroup(since=now, labels=(label,))})
    return DONE


def unreserve(fleet: SimFleet, run: Run, action: Unreserve, now: float) -> Answer:
    """Remove a slice's placement group, if it is there."""
    if (ray := fleet.ray(now)) is None:
        return _headless(run, action.kind)
    if action.slice in ray.groups:
        _keep(fleet, ray, {key: at for key, at in ray.groups.items() if key != action.slice})
    return DONE


def verify(fleet: SimFleet, run: Run, action: Verify, now: float) -> Answer:
    """Return the bundles of a slice as Ray has them now."""
    if (ray := fleet.ray(now)) is None:
        return _headless(run, action.kind)
    if action.slice not in ray.groups:
        return failed(action.kind, f"Ray has no placement group for slice `{action.slice}`")
    part = index_of(run).slices[action.slice]
    return Answer(result=Result.DONE, bundles=fleet.tables(ray, now).group(part).bundles)


def start(fleet: SimFleet, run: Run, action: Start, now: float) -> Answer:
    """Begin the ranks and drivers of a gang that were not begun in this attempt.

    FAILED names the members that could not start.
    """
    if (ray := fleet.ray(now)) is None:
        return _headless(run, action.kind)
    index, tables = index_of(run), fleet.tables(ray, now)
    holders = {slot.member: slot for slot in action.slots}
    gang = [member for member in index.by_gang[action.gang] if index.driver(member) in (None, member)]
    reserved = [key for key in dict.fromkeys(member.slice_key for member in gang) if key in ray.groups]
    found = {key: tables.group(index.slices[key]) for key in reserved}
    created = {key: group.bundles for key, group in found.items() if group.state is GroupState.CREATED}
    stuck = [
        f"`{member.name}`"
        for member in gang
        if not _startable(fleet, run, member, holders[member.name].node, created, now)
        or not _begin(fleet, run, action, member, holders, now)
    ]
    if stuck:
        return failed(action.kind, f"no rank could be started for {', '.join(stuck)}")
    return DONE


def release_head(fleet: SimFleet, run: Run, action: Release, now: float) -> Answer:
    """End the Ray head of a run and drop its tables.

    CANNOT_TELL where its machine does not answer.
    """
    del run
    if not fleet.machine_reachable(action.node, now):
        return replace(silent(action.node or HEAD, action.kind), result=Result.CANNOT_TELL)
    world = fleet.world()
    if world.ray is not None and world.ray.node == action.node:
        fleet.save_world(replace(world, ray=None))
    return KILLED


def _startable(
    fleet: SimFleet, run: Run, member: Member, node: NodeName, created: Mapping[str, Sequence[Bundle]], now: float
) -> bool:
    """Whether a rank can be started: by Ray where it has its bundle, or a driver by the agent of its node."""
    if index_of(run).driver(member) is not None:
        return fleet.life(node).reachable(now)
    raylet = fleet.life(node).raylet(now)
    bundle = next((one for one in created.get(member.slice_key, ()) if one.index == member.slice_rank), None)
    return raylet is not None and bundle is not None and bundle.slot == raylet.raylet.slot


def _begin(
    fleet: SimFleet, run: Run, action: Start, member: Member, holders: Mapping[MemberName, Slot], now: float
) -> bool:
    node = holders[member.name].node
    life = fleet.life(node)
    ours = [one for one in life.ranks if one.rank.member == member.name]
    if any(one.rank.attempt >= action.attempt for one in ours):
        return True
    raylet = life.raylet(now)
    if raylet is None or life.host.run != run.id or any(one.alive(now) for one in ours):
        return False
    rank = Rank(
        member=member.name,
        attempt=action.attempt,
        restarts=action.restarts,
        generation=raylet.raylet.generation,
        master=_address(run, holders[MemberName(f"{member.group}/0")].node),
        begun_at=now,
    )
    others = tuple(one for one in life.host.ranks if one.member != member.name)
    fleet.save(node, replace(life.host, ranks=(*others, rank)))
    return True


def _keep(fleet: SimFleet, ray: Ray, groups: Mapping[str, RayGroup]) -> None:
    fleet.save_world(replace(fleet.world(), ray=replace(ray, groups=groups)))


def _headless(run: Run, stage: str) -> Answer:
    return failed(stage, f"the Ray head on `{run.head or HEAD}` does not answer")


def _address(run: Run, node: NodeName) -> str:
    return index_of(run).nodes[node].access.address
