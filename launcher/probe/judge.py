"""The facts of one node, judged: one finding a fact, always in the same order."""

from launcher.core.model.inventory import GpuDriver, Node
from launcher.probe import judge_company, judge_gpu, judge_imex, judge_system
from launcher.probe.answer import Unknown
from launcher.probe.collect import Facts
from launcher.probe.report import Fact, Finding, bad, cannot_tell, not_applicable

_SYSTEM = (
    judge_system.host,
    judge_system.clock,
    judge_system.python,
    judge_system.ray,
    judge_system.disk,
    judge_system.shared_memory,
    judge_system.open_files,
    judge_system.own_name,
    judge_company.other_ray,
    judge_company.leftovers,
    judge_company.lease,
    judge_system.logout,
    judge_system.sudo,
    judge_system.infiniband,
)
_GPU = (
    judge_gpu.driver,
    judge_gpu.gpus,
    judge_gpu.gpu_memory,
    judge_gpu.recovery,
    judge_gpu.fabric,
    judge_gpu.domain,
    judge_imex.imex,
    judge_gpu.xids,
)
GPU_FACTS = (
    Fact.DRIVER,
    Fact.GPUS,
    Fact.GPU_MEMORY,
    Fact.RECOVERY,
    Fact.FABRIC,
    Fact.DOMAIN,
    Fact.IMEX,
    Fact.XIDS,
)


def judge(facts: Facts | Unknown, node: Node, *, ports: frozenset[int] = frozenset()) -> tuple[Finding, ...]:
    """Return a finding for each fact of a node, in the order of `Fact`. `ports` are those that a run would pin."""
    if isinstance(facts, Unknown):
        return (_of_nobody(facts),)
    found = [ask(facts, node) for ask in _SYSTEM] + [judge_company.ports(facts, ports)]
    if node.gpu_driver is GpuDriver.NONE:
        found += [not_applicable(fact, "a CPU rack") for fact in GPU_FACTS]
    else:
        found += [ask(facts, node) for ask in _GPU]
    order = list(Fact)
    return tuple(sorted(found, key=lambda finding: order.index(finding.fact)))


def _of_nobody(unknown: Unknown) -> Finding:
    """Judge a node that gave no facts. That it cannot be reached is a fact; what becomes of it is not known."""
    if unknown.unreachable:
        return bad(Fact.REACHABLE, unknown.why)
    if unknown.missing:
        return bad(Fact.PYTHON, unknown.why)
    return cannot_tell(Fact.HOST, unknown.why, stops=True)
