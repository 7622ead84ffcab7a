"""Check all facts of one node: one finding for each, always in the same order."""

from launcher.core.model.inventory import GpuDriver, Node
from launcher.probe import (
    check_containers,
    check_folders,
    check_gpu,
    check_imex,
    check_in_use,
    check_limits,
    check_system,
)
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, not_applicable
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

_SYSTEM = (
    check_system.host,
    check_system.clock,
    check_system.python,
    check_system.ray,
    check_system.disk,
    check_system.shared_memory,
    check_folders.folders,
    check_limits.open_files,
    check_limits.locked_memory,
    check_limits.processes,
    check_system.hostname,
    check_in_use.other_ray,
    check_in_use.leftovers,
    check_in_use.lease,
    check_in_use.slurm,
    check_system.logout,
    check_system.sudo,
    check_system.infiniband,
)
_GPU = (
    check_gpu.driver,
    check_gpu.gpus,
    check_gpu.gpu_memory,
    check_gpu.memory_errors,
    check_gpu.recovery,
    check_gpu.fabric,
    check_gpu.domain,
    check_imex.imex,
    check_gpu.xids,
)
GPU_FACTS = (
    Fact.DRIVER,
    Fact.GPUS,
    Fact.GPU_MEMORY,
    Fact.MEMORY_ERRORS,
    Fact.RECOVERY,
    Fact.FABRIC,
    Fact.DOMAIN,
    Fact.IMEX,
    Fact.XIDS,
)

_ORDER = {fact: at for at, fact in enumerate(Fact)}


def check_node(
    facts: Facts | Unknown, node: Node, *, ports: frozenset[int] = frozenset(), needs: TaskNeeds = NOTHING
) -> tuple[Finding, ...]:
    """Return a finding for each fact of a node, in the order of `Fact`.

    `ports` are those that a run would use, `needs` what its task needs.
    """
    if isinstance(facts, Unknown):
        return (_without_facts(facts),)
    found = [ask(facts, node) for ask in _SYSTEM] + [check_in_use.ports(facts, ports)]
    if not needs.ray:
        found = [not_applicable(Fact.RAY, "that of the image") if one.fact is Fact.RAY else one for one in found]
    found += [check_containers.containers(facts, node, needs)] if needs.containers else []
    found += [check_containers.fuse(facts, needs)] if needs.mounts else []
    if node.gpu_driver is GpuDriver.NONE:
        found += [not_applicable(fact, "the node has no GPU driver (`gpu_driver: none`)") for fact in GPU_FACTS]
    else:
        found += [ask(facts, node) for ask in _GPU]
    return tuple(sorted(found, key=lambda finding: _ORDER[finding.fact]))


def _without_facts(unknown: Unknown) -> Finding:
    """Return the finding about a node that gave no facts."""
    if unknown.unreachable:
        return bad(Fact.REACHABLE, unknown.why)
    if unknown.missing:
        return bad(Fact.PYTHON, unknown.why)
    return cannot_tell(Fact.HOST, unknown.why, stops=True)
