"""The logs of an imaginary fleet: a few lines of a program that never ran.

They grow with the time.
"""

from collections.abc import Iterator

from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Member, Run
from launcher.core.model.run_index import index_of
from launcher.sim.lives import Life, RankLife

STEPS = 10
"""How many lines a program writes while it runs."""


def rank_log(run: Run, member: Member, node: NodeName, one: RankLife, now: float, run_s: float) -> bytes:
    """Return all that a rank has written by now.

    Its variables, some steps, and how it ended.
    """
    lines = [*_variables(run, member, node, one), *_steps(one, now, run_s)]
    if not one.alive(now):
        lines += list(ending(one.code))
    return _text(lines)


def provision_log(life: Life, node: NodeName, now: float) -> bytes:
    """Return what the agent of a node has written by now."""
    lines: list[str] = []
    if life.setup is not None:
        lines.append(f"setup on {node} begun")
        lines += [f"setup ended with exit status {life.setup.code}"] if life.setup.ends <= now else []
    for one in life.raylets:
        lines.append(f"raylet of slot {one.raylet.slot}, generation {one.raylet.generation}, begun")
        lines += ["raylet ended"] if not one.alive(now) else []
    return _text(lines)


def ending(code: int | None) -> tuple[str, ...]:
    """Return the last lines of a program by its exit code; none where it vanished."""
    if code is None:
        return ()
    if code == 0:
        return ("done",)
    return ("Traceback (most recent call last):", f"SystemExit: {code}")


def _variables(run: Run, member: Member, node: NodeName, one: RankLife) -> Iterator[str]:
    topology, place = run.group(member.group).topology, index_of(run).nodes[node]
    yield f"NVLAUNCH_RUN={run.name}"
    yield f"NVLAUNCH_GROUP={member.group}"
    yield f"NVLAUNCH_NODE_RANK={member.rank}"
    yield f"NVLAUNCH_NUM_NODES={topology.nodes}"
    yield f"NVLAUNCH_SLICE={member.slice}"
    yield f"NVLAUNCH_SLICE_RANK={member.slice_rank}"
    yield f"NVLAUNCH_NUM_SLICES={topology.slices}"
    yield f"NVLAUNCH_NUM_GPUS_PER_NODE={run.group(member.group).gpus}"
    yield f"NVLAUNCH_RACK={place.rack}"
    yield f"NVLAUNCH_DOMAIN={place.domain or ''}"
    yield f"NVLAUNCH_ATTEMPT={one.rank.attempt}"
    yield f"NVLAUNCH_RESTARTS={one.rank.restarts}"
    yield f"MASTER_ADDR={one.rank.master}"


def _steps(one: RankLife, now: float, run_s: float) -> Iterator[str]:
    until = min(now, one.ends)
    for step in range(1, STEPS):
        if one.rank.begun_at + step * run_s / STEPS <= until:
            yield f"step {step} of {STEPS}"


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()
