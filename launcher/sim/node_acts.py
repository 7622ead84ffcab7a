"""Actions on one node of an imaginary fleet.

Each changes the node's row at once, and answers as a real node does.
"""

from dataclasses import replace
from signal import Signals

from launcher.core.model.actions import (
    Acquire,
    Announce,
    Join,
    Kill,
    Level,
    PowerOff,
    PowerQuery,
    Prepare,
    Release,
    Signal,
)
from launcher.core.model.inventory import GpuDriver
from launcher.core.model.nodeset import NodeName
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Member, MemberName, Run
from launcher.core.model.run_index import index_of
from launcher.core.model.simulation import FaultKind
from launcher.sim.faults import during
from launcher.sim.fleet import SimFleet
from launcher.sim.lives import Life, agent_dies
from launcher.sim.reach import POWERED_OFF_S
from launcher.sim.world import Raylet, Setup, SimHost

STRANGER = "somebody@elsewhere"
STRANGE = "not free: `python` (pid 4711, of another user) computes on GPU 0"

DONE = Answer(result=Result.DONE)
KILLED = Answer(result=Result.KILLED)


def acquire(fleet: SimFleet, run: Run, action: Acquire, now: float) -> Answer:
    """Take a node's lease and start its agent; HELD while it is taken.

    Another run may have it, or a fault. The store gives a node to one run at a time, so that two processes never take
    the same lease at once.
    """
    fleet.begin(now)
    life = fleet.life(action.node)
    if not life.reachable(now):
        return silent(action.node, action.kind)
    around = fleet.circumstances(action.node)
    stranger = STRANGER if during(around.faults, FaultKind.LEASE_HELD, now) else None
    holder = life.host.run if life.host.run not in (None, run.id) else stranger
    if holder:
        return Answer(result=Result.HELD, stage=action.kind, message=f"`{holder}`")
    if not life.agent(now):
        dies = agent_dies(now, around)
        fleet.save(action.node, replace(life.host, run=run.id, agent_at=now, agent_dies=dies, setup=None))
    return DONE


def prepare(fleet: SimFleet, run: Run, action: Prepare, now: float) -> Answer:
    """Begin the setup of an acquired node.

    Nothing where the member's setup runs there or has succeeded.
    """
    life = fleet.life(action.node)
    if refused := refusal(life, run, action.node, action.kind, now):
        return refused
    setup, row = life.setup, life.host.setup
    good = setup is not None and (now < setup.ends or setup.code == 0)
    if not good or row is None or row.member != action.member:
        fleet.save(action.node, replace(life.host, setup=Setup(member=action.member, begun_at=now)))
    return DONE


def join(fleet: SimFleet, run: Run, action: Join, now: float) -> Answer:
    """Begin the raylet of a slot.

    Nothing where one of its generation, or a newer one, was begun.
    """
    node, generation = action.slot.node, action.slot.generation
    life = fleet.life(node)
    if refused := refusal(life, run, node, action.kind, now):
        return refused
    if any(one.raylet.generation >= generation for one in life.raylets):
        return DONE
    if any(one.alive(now) for one in life.raylets):
        return failed(action.kind, f"an older raylet still runs on `{node}`")
    if life.setup is None or now < life.setup.ends or life.setup.code:
        return failed(action.kind, f"`{node}` is not set up")
    if not (fleet.head_lives(now) and fleet.head_reachable(now)):
        return failed(action.kind, f"the Ray head does not answer `{node}`")
    raylet = Raylet(slot=action.slot.label(member(run, action.slot.member)), generation=generation, begun_at=now)
    fleet.save(node, replace(life.host, raylets=(*life.host.raylets, raylet)))
    return DONE


def announce(fleet: SimFleet, run: Run, action: Announce, now: float) -> Answer:
    """Tell an imaginary Ray of a drain: no program there listens."""
    return refusal(fleet.life(action.slot.node), run, action.slot.node, action.kind, now) or DONE


def signal(fleet: SimFleet, run: Run, action: Signal, now: float) -> Answer:
    """Send a stop signal to the ranks on a node, or to those of one gang.

    Only to those that have had none; each ends of it a second later.
    """
    life = fleet.life(action.node)
    if refused := refusal(life, run, action.node, action.kind, now):
        return refused
    number = Signals[f"SIG{action.signal.removeprefix('SIG')}"].value
    alive = {one.rank for one in life.ranks if one.alive(now) and one.rank.signalled is None}
    if action.gang is not None:
        meant = {member.name for member in index_of(run).by_gang.get(action.gang, ())}
        alive = {rank for rank in alive if rank.member in meant}
    if alive:
        told = (
            replace(rank, signalled=number, signalled_at=now) if rank in alive else rank for rank in life.host.ranks
        )
        fleet.save(action.node, replace(life.host, ranks=tuple(told)))
    return DONE


def kill(fleet: SimFleet, run: Run, action: Kill, now: float) -> Answer:
    """Kill what lives of the run on a node at a level.

    CANNOT_TELL where the node does not answer, NOT_FREE where something is to start again and another process computes
    on a GPU.
    """
    life = fleet.life(action.node)
    if not life.reachable(now):
        return replace(silent(action.node, action.kind), result=Result.CANNOT_TELL)
    if life.host.run == run.id and (killed := _killed(life, action, now)) != life.host:
        fleet.save(action.node, killed)
    taken = during(fleet.circumstances(action.node).faults, FaultKind.GPU_TAKEN, now)
    if action.reused and taken and index_of(run).nodes[action.node].gpu_driver is GpuDriver.NVIDIA:
        return Answer(result=Result.NOT_FREE, stage=action.kind, message=STRANGE)
    return KILLED


def release(fleet: SimFleet, run: Run, action: Release, now: float) -> Answer:
    """Kill all of the run on a node and release its lease.

    CANNOT_TELL where the node does not answer.
    """
    if action.node is None:
        return failed(action.kind, "no node to release")
    life = fleet.life(action.node)
    if not life.reachable(now):
        return replace(silent(action.node, action.kind), result=Result.CANNOT_TELL)
    if life.host.run == run.id:
        fleet.save(action.node, SimHost())
    return KILLED


def power_off(fleet: SimFleet, run: Run, action: PowerOff, now: float) -> Answer:
    """Power a node off: all that was begun there is gone, reachable or not.

    It comes up again by itself, as empty as after a power cut.
    """
    if run.fleet.fence_command is None:
        return failed(action.kind, "the inventory has no `fence_command`")
    life = fleet.life(action.node)
    fleet.save(action.node, replace(life.host, off_at=now))
    return Answer(result=Result.POWERED_OFF)


def power_query(fleet: SimFleet, run: Run, action: PowerQuery, now: float) -> Answer:
    """Ask whether a node is off: by order, or for a fault of its power."""
    if run.fleet.power_query is None:
        return failed(action.kind, "the inventory has no `power_query`")
    life = fleet.life(action.node)
    ordered = life.host.off_at is not None and now < life.host.off_at + POWERED_OFF_S
    off = ordered or during(life.around.faults, FaultKind.POWER_CUT, now) is not None
    return Answer(result=Result.POWERED_OFF) if off else failed(action.kind, f"`{action.node}` is on")


def silent(node: str, stage: str) -> Answer:
    """Return the failed answer of a node that does not reply."""
    return failed(stage, f"no answer from `{node}`")


def failed(stage: str, message: str) -> Answer:
    """Return a failed answer with its reason."""
    return Answer(result=Result.FAILED, stage=stage, message=message)


def member(run: Run, name: MemberName) -> Member:
    """Return the member of a name."""
    return index_of(run).by_name[name]


def _killed(life: Life, action: Kill, now: float) -> SimHost:
    raylets = [one.raylet for one in life.raylets if one.alive(now)]
    ranks = [one.rank for one in life.ranks if one.alive(now)]
    match action.level:
        case Level.NODE:
            return replace(life.host.killed(now, raylets, ranks), setup=None)
        case Level.GENERATION:
            old = [raylet for raylet in raylets if raylet.generation <= action.generation]
            return life.host.killed(now, old, [rank for rank in ranks if rank.generation <= action.generation])
        case Level.RANK:
            mine = [rank for rank in ranks if rank.member == action.member and rank.attempt <= action.attempt]
            return life.host.killed(now, (), mine)


def refusal(life: Life, run: Run, node: NodeName, stage: str, now: float) -> Answer | None:
    """Return why the run's agent can do nothing there.

    None where it runs and is reachable.
    """
    if not life.reachable(now):
        return silent(node, stage)
    if life.host.run != run.id or not life.agent(now):
        return failed(stage, f"the agent is no longer running on `{node}`")
    return None
