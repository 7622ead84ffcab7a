"""Whether anybody else uses a node: ports, a foreign Ray, what old runs have left."""

from collections.abc import Sequence

from launcher.core.model.inventory import Node
from launcher.probe.answer import Unknown
from launcher.probe.collect import Facts
from launcher.probe.report import Fact, Finding, bad, cannot_tell, good
from launcher.probe.resources import Process


def ports(facts: Facts, wanted: frozenset[int]) -> Finding:
    """Judge whether the ports that a run would pin are free."""
    if isinstance(facts.ports, Unknown):
        return cannot_tell(Fact.PORTS, facts.ports.why)
    taken = sorted(facts.ports & wanted)
    if taken:
        shown = ", ".join(map(str, taken[:5])) + (" ..." if len(taken) > 5 else "")
        return bad(Fact.PORTS, f"{shown} in use: `sudo ss -ltnp` on the node says by whom")
    return good(Fact.PORTS, "free" if wanted else f"{len(facts.ports)} in use")


def live(processes: Sequence[Process]) -> tuple[str, ...]:
    """Return the units, `<run>:<place>`, whose agent is alive: their processes are no leftovers."""
    return tuple(sorted({process.agent for process in processes if process.agent}))


def _unit(process: Process) -> str:
    return ":".join((process.mark or "").split(":")[:2])


def _named(processes: Sequence[Process]) -> tuple[str, ...]:
    return tuple(f"pid {one.pid} of {one.user}: {one.name}" for one in processes[:10])


def other_ray(facts: Facts, _node: Node) -> Finding:
    """Judge whether there is a Ray that is none of ours."""
    if isinstance(facts.processes, Unknown):
        return cannot_tell(Fact.OTHER_RAY, facts.processes.why)
    foreign = [process for process in facts.processes if process.ray and not process.mark]
    if foreign:
        users = ", ".join(sorted({f"`{process.user}`" for process in foreign}))
        message = f"Ray of {users} runs here (pid {foreign[0].pid}); stop it, or take another node"
        return bad(Fact.OTHER_RAY, message, *_named(foreign))
    return good(Fact.OTHER_RAY, "none")


def leftovers(facts: Facts, _node: Node) -> Finding:
    """Judge whether processes of a run are left whose agent is gone."""
    if isinstance(facts.processes, Unknown):
        return cannot_tell(Fact.LEFTOVERS, facts.processes.why)
    alive = live(facts.processes)
    left = [process for process in facts.processes if process.mark and _unit(process) not in alive]
    if left:
        runs = ", ".join(sorted({f"`{_unit(process).partition(':')[0]}`" for process in left}))
        count = "a process" if len(left) == 1 else f"{len(left)} processes"
        message = f"{count} of run {runs} left behind: `kill -9 {' '.join(str(one.pid) for one in left[:10])}`"
        return bad(Fact.LEFTOVERS, message, *_named(left))
    return good(Fact.LEFTOVERS, f"none; alive: {', '.join(alive)}" if alive else "none")


def lease(facts: Facts, _node: Node) -> Finding:
    """Tell whose the node is now: to be in use is nothing bad."""
    if isinstance(facts.lease, Unknown):
        return cannot_tell(Fact.LEASE, facts.lease.why)
    return good(Fact.LEASE, f"held by {facts.lease}" if facts.lease else "free")
