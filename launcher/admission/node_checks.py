"""Nodes asked and judged: what is said of each of them, and of those that have to be alike."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace

from launcher.core.model.inventory import GpuDriver, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.ports import Listener, Prober
from launcher.probe.check_node import check_node
from launcher.probe.check_slice import check_slice
from launcher.probe.findings import CheckResult, Fact, Finding
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown
from launcher.setup import ports

HEAD = NodeName("@head")
"""What the machine that the inventory names for Ray heads is called among nodes: none of those can have this name."""

_OF_A_RUN = (Fact.PYTHON, Fact.RAY)
"""What has to be equal over all of a run: Ray takes in no node of another version."""

_OF_A_DOMAIN = (Fact.DOMAIN, Fact.IMEX)
"""What is equal within an NVLink domain, and differs between two by right."""

_OF_A_LOCAL_RACK = (
    Fact.PYTHON,
    Fact.RAY,
    Fact.DISK,
    Fact.SHARED_MEMORY,
    Fact.OPEN_FILES,
    Fact.HOSTNAME,
    Fact.PORTS,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A node, what is known of it, and what is to be said of that."""

    node: Node
    facts: Facts | Unknown
    findings: tuple[Finding, ...]

    @property
    def reached(self) -> bool:
        """Whether somebody there could be asked."""
        return not (isinstance(self.facts, Unknown) and self.facts.unreachable)

    @property
    def sick(self) -> str | None:
        """Return why nothing should start on the node; None where nothing speaks against it."""
        return words_of([finding for finding in self.findings if finding.stops])

    def says(self, answer: CheckResult) -> bool:
        """Whether a finding has this answer."""
        return any(finding.result is answer for finding in self.findings)


def words_of(findings: Sequence[Finding]) -> str | None:
    """Return findings in a sentence, each thing said once; None for none."""
    said: dict[str, str] = {}
    for finding in findings:
        said.setdefault(finding.message, f"{finding.fact.value}: {finding.message}")
    return "; ".join(said.values()) or None


def head_of(fleet: Inventory) -> Node | None:
    """Return the machine that the inventory names for Ray heads, as a node without GPUs."""
    if fleet.head is None:
        return None
    return Node(name=HEAD, rack=RackName(HEAD), access=fleet.head, gpus=0, gpu_driver=GpuDriver.NONE)


def examine(fleet: Inventory, nodes: Sequence[Node], prober: Prober, listener: Listener) -> tuple[Examined, ...]:
    """Return what is to be said of each of these nodes, all asked at once."""
    meant = [_as_it_is(fleet, node) for node in nodes]
    answers = prober.probe(meant, listener)
    return tuple(_judged(fleet, node, answers[node.name]) for node in meant)


def compare(part: Sequence[Examined], *, one_domain: bool = True) -> tuple[Finding, ...]:
    """Return what has to be equal over nodes of a slice, or of an NVLink domain, and is or is not."""
    skipped = _OF_A_RUN if one_domain else (*_OF_A_RUN, *_OF_A_DOMAIN)
    return tuple(finding for finding in _alike(part) if finding.fact not in skipped)


def compare_all(nodes: Sequence[Examined]) -> tuple[Finding, ...]:
    """Return what has to be equal over all nodes of a run, its head too, and is or is not."""
    return tuple(finding for finding in _alike(nodes) if finding.fact in _OF_A_RUN)


def _alike(part: Sequence[Examined]) -> tuple[Finding, ...]:
    return check_slice([(one.node, one.facts) for one in part if not isinstance(one.facts, Unknown)])


def _as_it_is(fleet: Inventory, node: Node) -> Node:
    """Local nodes run our own Python and pretend their GPUs; imaginary ones have no driver that knows of domains."""
    match fleet.transport:
        case Transport.SSH:
            return node
        case Transport.LOCAL:
            access = replace(node.access, python=node.access.python or sys.executable)
            return replace(node, access=access, gpu_driver=GpuDriver.NONE)
        case Transport.SIM:
            return replace(node, domain=None, gpu_driver=node.gpu_driver if node.gpus else GpuDriver.NONE)


def _judged(fleet: Inventory, node: Node, facts: Facts | Unknown) -> Examined:
    findings = check_node(facts, node, ports=_pinned(fleet, node, facts))
    if fleet.transport is Transport.LOCAL:
        # This machine is all there is: what it lacks is told, and keeps nobody from trying.
        told = [finding for finding in findings if finding.fact in _OF_A_LOCAL_RACK]
        findings = tuple(replace(one, stops=one.stops and one.fact in _OF_A_RUN) for one in told)
    return Examined(node=node, facts=facts, findings=findings)


def _pinned(fleet: Inventory, node: Node, facts: Facts | Unknown) -> frozenset[int]:
    """Return the ports that a run would pin there: of the first block that is free, else of the first."""
    local = fleet.transport is Transport.LOCAL
    blocks = ports.narrow() if local else ports.heads() if node.name == HEAD else ports.wide()
    wanted = [frozenset(range(start, start + ports.PINNED)) for start in blocks.starts]
    used = frozenset() if isinstance(facts, Unknown) or isinstance(facts.ports, Unknown) else facts.ports
    return next((block for block in wanted if not block & used), wanted[0])
