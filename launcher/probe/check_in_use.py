"""Checks for other users of a node: ports, Ray, leftovers, the lease, Slurm."""

from collections.abc import Sequence

from launcher.core.model.inventory import Node
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good
from launcher.probe.node_facts import Facts
from launcher.probe.resources import NodeProcess
from launcher.probe.results import Unknown


def ports(facts: Facts, wanted: frozenset[int]) -> Finding:
    """Check that the ports that a run would use are free."""
    if isinstance(facts.ports, Unknown):
        return cannot_tell(Fact.PORTS, facts.ports.why)
    taken = sorted(facts.ports & wanted)
    if taken:
        shown = ", ".join(map(str, taken[:5])) + (" ..." if len(taken) > 5 else "")
        return bad(Fact.PORTS, f"{shown} in use; find the process with `sudo ss -ltnp` on the node")
    return good(Fact.PORTS, "free" if wanted else f"{len(facts.ports)} in use")


def live(processes: Sequence[NodeProcess]) -> tuple[str, ...]:
    """Return the `<run>:<node>` of each agent that is alive.

    Its processes are not leftovers.
    """
    return tuple(sorted({process.agent for process in processes if process.agent}))


def _unit(process: NodeProcess) -> str:
    return ":".join((process.mark or "").split(":")[:2])


def _named(processes: Sequence[NodeProcess]) -> tuple[str, ...]:
    return tuple(f"pid {one.pid} of {one.user}: {one.name}" for one in processes[:10])


def other_ray(facts: Facts, _node: Node) -> Finding:
    """Check that no Ray of another user or launcher runs on the node."""
    if isinstance(facts.processes, Unknown):
        return cannot_tell(Fact.OTHER_RAY, facts.processes.why)
    foreign = [process for process in facts.processes if process.ray and not process.mark]
    if foreign:
        users = ", ".join(sorted({f"`{process.user}`" for process in foreign}))
        message = f"Ray of {users} runs on the node (pid {foreign[0].pid}); stop it, or use another node"
        return bad(Fact.OTHER_RAY, message, *_named(foreign))
    return good(Fact.OTHER_RAY, "none")


def leftovers(facts: Facts, _node: Node) -> Finding:
    """Check that no processes are left of a run whose agent has ended."""
    if isinstance(facts.processes, Unknown):
        return cannot_tell(Fact.LEFTOVERS, facts.processes.why)
    alive = live(facts.processes)
    left = [process for process in facts.processes if process.mark and _unit(process) not in alive]
    if left:
        runs = ", ".join(sorted({f"`{_unit(process).partition(':')[0]}`" for process in left}))
        pids = " ".join(str(one.pid) for one in left[:10])
        number = "1 leftover process" if len(left) == 1 else f"{len(left)} leftover processes"
        message = f"{number} of run {runs}; stop with `kill -9 {pids}`"
        return bad(Fact.LEFTOVERS, message, *_named(left))
    return good(Fact.LEFTOVERS, f"none; running: {', '.join(alive)}" if alive else "none")


def lease(facts: Facts, _node: Node) -> Finding:
    """Report who holds the lease of the node; a lease is never bad."""
    if isinstance(facts.lease, Unknown):
        return cannot_tell(Fact.LEASE, facts.lease.why)
    return good(Fact.LEASE, f"held by {facts.lease}" if facts.lease else "free")


def slurm(facts: Facts, _node: Node) -> Finding:
    """Check that no job of Slurm is on the node, and that a run does not end with one."""
    found = facts.slurm
    if isinstance(found, Unknown):
        return cannot_tell(Fact.SLURM, found.why)
    by = (found.pam,) if found.pam else ()
    if found.adopted:
        seen = 0 if isinstance(facts.driver, Unknown) else len(facts.driver.gpus)
        part = f" and see {seen} of {found.installed} GPUs" if 0 < seen < found.installed else ""
        message = f"logins become part of Slurm job {found.adopted}{part}: a run ends with that job"
        return bad(Fact.SLURM, message, *by, stops=False)
    own = None if isinstance(facts.host, Unknown) else facts.host.user
    others = {job: user for job, user in found.jobs.items() if user != own}
    if others:
        shown = ", ".join(f"{job} of `{user}`" if user else job for job, user in list(others.items())[:5])
        more = " ..." if len(others) > 5 else ""
        # Whose job it is cannot always be seen: it may be our own allocation.
        return bad(Fact.SLURM, f"on the node: Slurm job {shown}{more}", *by, stops=any(others.values()))
    if found.daemon:
        return good(
            Fact.SLURM, "slurmd runs: reserve or drain the node in Slurm, which may start jobs there at any time"
        )
    return good(Fact.SLURM, "not on the node")
