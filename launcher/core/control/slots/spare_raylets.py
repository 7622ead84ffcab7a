"""Raylets of spares: up before they are needed, and held by a placement group so that nothing runs there.

A spare is prepared and joins Ray once every rank runs: it delays no launch and no recovery. Its raylet has a label of
its own, used once, and keeps it when the node gets a slot: Ray changes no label. So the placement group of that slice
is removed and made anew for the labels of now, which takes Ray a moment; it waits neither for `ray start` nor until Ray
notices that the lost raylet is gone.
"""

from launcher.core.control.conditions import Condition
from launcher.core.control.state import Tick
from launcher.core.model.action_key import ActionKey
from launcher.core.model.actions import Join, Kill, Level, Park, Prepare, Reason, Why
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import AgentReport, GroupReport, GroupState, Phase
from launcher.core.model.run import Member, Slot, spare_label

_UP = (Condition.SERVING, Condition.FINISHED)


def start_spares(tick: Tick) -> None:
    """Prepare each spare, start its raylet and hold that, while every rank runs.

    A raylet of a spare that ends is nobody's fault: another one is started, with a wait that grows.

    Reads `conditions`, `holders`, the head. Writes `record.spares`, `joined`, `retries`; `actions`.
    """
    record, idle = tick.record, _idle(tick)
    for node in record.spares.keys() - set(idle):
        del record.spares[node]
        tick.retries.pop(_deaths(node), None)
    head = tick.head()
    if head is None or not idle or not _calm(tick):
        return
    groups = {group.slice: group for group in head.groups}
    for node in idle:
        agent = tick.agent(node)
        if agent is not None and node in record.leased and not goes_back(tick, node):
            _go_on(tick, node, agent, groups)


def raylet_of(tick: Tick, node: NodeName) -> int | None:
    """Return the generation of the raylet that a spare has and a slot can go on with; None without one."""
    generation, agent = tick.record.spares.get(node), tick.agent(node)
    if generation is None or agent is None or agent.ray.phase is not Phase.RUNNING:
        return None
    gone = tick.ray.get((spare_label(generation), generation)) is False
    return None if gone or agent.ray.generation != generation else generation


def goes_back(tick: Tick, name: NodeName) -> bool:
    """Whether a node is being given back: nothing may start there any more."""
    key = ActionKey("return_spare", node=name)
    return tick.in_flight.has(key) or key in tick.actions


def taken_over(tick: Tick, member: Member, node: NodeName) -> int | None:
    """Return the generation of the raylet with which a slot goes on at a spare; None where it has to start one.

    Ray ends whatever runs in a placement group that is removed, so no rank of a slice there may go on meanwhile.
    """
    slices = {one.slice_key for one in tick.index.colocated(member)}
    gangs = [tick.gang_of(one) for key in slices for one in tick.index.by_slice[key]]
    return raylet_of(tick, node) if all(gang.broken or gang.attempt == 0 for gang in gangs) else None


def other_raylet(tick: Tick, node: NodeName, generation: int | None) -> int | None:
    """Return the generation of a raylet that runs on a node and is not the one that is wanted there; None without."""
    agent = tick.agent(node)
    if agent is None or agent.ray.phase is not Phase.RUNNING or agent.ray.generation == generation:
        return None
    return agent.ray.generation


def raylet_kill(tick: Tick, member: Member, node: NodeName, generation: int, reason: Reason) -> Kill:
    """Return the kill of a raylet that a node runs and must not go on with, in the name of a slot."""
    gang = tick.index.gangs[member.name]
    return Kill(reason=reason, node=node, level=Level.GENERATION, member=member.name, gang=gang, generation=generation)


def current(tick: Tick, slot: Slot) -> bool:
    """Whether the raylet of a spare that was asked for is still wanted: by the spare, or by the slot that it has."""
    if tick.record.spares.get(slot.node) == slot.generation:
        return True
    holder = tick.record.slots.get(tick.holders.get(slot.node, slot.member))
    return holder is not None and (holder.node, holder.generation) == (slot.node, slot.generation)


def _go_on(tick: Tick, node: NodeName, agent: AgentReport, groups: dict[str, GroupReport]) -> None:
    """Take the next step of a spare."""
    member, record = _stand_in(tick, node), tick.record
    reason = Reason(why=Why.START, message=f"{node} is a spare")
    match agent.setup.phase:
        case Phase.ABSENT:
            tick.do(Prepare(reason=reason, node=node, member=member.name))
        case Phase.DONE if _one_gang(tick, member):
            _join(tick, node, agent, member, reason)
        case _:
            return  # it runs; or it failed, which is judged when the node is needed
    generation = record.spares.get(node)
    if generation is not None and raylet_of(tick, node) is not None:
        label = spare_label(generation)
        held = groups.get(label)
        if tick.ray.get((label, generation)) and (held is None or held.state is GroupState.REMOVED):
            tick.do(Park(reason=reason, slot=_slot(member, node, generation)))


def _join(tick: Tick, node: NodeName, agent: AgentReport, member: Member, reason: Reason) -> None:
    """Start the raylet of a spare that has none, under a new label where it had one."""
    record, wanted = tick.record, tick.record.spares.get(node)
    if wanted is not None and raylet_of(tick, node) is not None:
        return
    if agent.ray.phase is Phase.RUNNING:  # of another cluster or slot, or dead to Ray
        tick.do(raylet_kill(tick, member, node, agent.ray.generation, reason))
        return
    if wanted is None or (agent.ray.phase is Phase.FAILED and agent.ray.generation == wanted):
        again = tick.retries.get(_deaths(node))
        if again is not None and again.at > tick.seen.at:
            tick.wake(again.at)
            return
        if tick.in_flight.has(ActionKey("join", node=node, generation=wanted)):
            return
        if wanted is not None:
            tick.back_off(_deaths(node))
        wanted = record.spares[node] = tick.new_generation()
    record.joined.add(node)
    tick.do(Join(reason=reason, slot=_slot(member, node, wanted)))


def _one_gang(tick: Tick, member: Member) -> bool:
    """Whether all ranks of a slice restart together: else a slot there never goes on with the raylet of a spare."""
    return len({tick.index.gangs[one.name] for one in tick.index.by_slice[member.slice_key]}) == 1


def _slot(member: Member, node: NodeName, generation: int) -> Slot:
    return Slot(member=member.name, node=node, generation=generation, spare=True)


def _stand_in(tick: Tick, node: NodeName) -> Member:
    """Return the member in whose name a spare is prepared: the last one of its slice, whichever slot it gets."""
    return tick.index.by_slice[tick.index.slice_of[node].key][-1]


def _idle(tick: Tick) -> list[NodeName]:
    """Return the nodes that could take a slot and have none."""
    if len(tick.index.slice_of) == len(tick.holders):
        return []
    record, drained = tick.record, tick.seen.drained
    return [
        name
        for name in tick.index.slice_of
        if name not in tick.holders and name not in record.failed_nodes and name not in drained
    ]


def _calm(tick: Tick) -> bool:
    """Whether every rank runs, or has ended well, and nothing else is going on."""
    record = tick.record
    if (
        record.resizing
        or record.dropping
        or record.since.draining
        or any(gang.broken for gang in record.gangs.values())
    ):
        return False
    return all(condition in _UP for condition in tick.conditions.values())


def _deaths(node: NodeName) -> ActionKey:
    """Return the key under which the ends of a spare's raylets are counted."""
    return ActionKey("join", node=node)
