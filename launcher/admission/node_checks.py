"""Checks nodes: the findings about each, and about nodes that must be equal."""

import posixpath
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from launcher.core.model.buckets import MountMode
from launcher.core.model.container import Engine, ImageSource
from launcher.core.model.inventory import GpuDriver, Inventory, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.core.model.task import Task
from launcher.ports import Listener, Prober
from launcher.probe.check_node import check_node
from launcher.probe.check_slice import check_machines, check_slice
from launcher.probe.findings import CheckResult, Fact, Finding
from launcher.probe.needs import NOTHING, ContainerNeed, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown
from launcher.setup import ports

HEAD = NodeName("@head")
"""The name of the machine for Ray heads among nodes; no node can have it."""

MAX_FOLDERS = 32
"""The most folders of a task that are tried on each node: each takes a process there."""

_OF_A_RUN = (Fact.PYTHON, Fact.RAY)
"""Facts that must be equal on all nodes of a run: Ray rejects nodes of another version."""

_OF_A_DOMAIN = (Fact.DOMAIN, Fact.IMEX)
"""Facts that must be equal within an NVLink domain only."""

_OF_A_LOCAL_RACK = (
    Fact.PYTHON,
    Fact.RAY,
    Fact.DISK,
    Fact.SHARED_MEMORY,
    Fact.OPEN_FILES,
    Fact.HOSTNAME,
    Fact.PORTS,
    Fact.CONTAINERS,
    Fact.FUSE,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """A node, its facts, and the findings about it."""

    node: Node
    facts: Facts | Unknown
    findings: tuple[Finding, ...]

    @property
    def reached(self) -> bool:
        """Whether the node could be reached."""
        return not (isinstance(self.facts, Unknown) and self.facts.unreachable)

    @property
    def without_job(self) -> bool:
        """Whether Slurm has the node, and does not let us in without a job."""
        return isinstance(self.facts, Unknown) and self.facts.no_job

    @property
    def unhealthy(self) -> str | None:
        """Return why nothing should start on the node; None where it is fit."""
        return summary([finding for finding in self.findings if finding.stops])

    def says(self, answer: CheckResult) -> bool:
        """Whether a finding has this answer."""
        return any(finding.result is answer for finding in self.findings)


def summary(findings: Sequence[Finding]) -> str | None:
    """Return findings in one sentence, equal ones once; None for none."""
    messages: dict[str, str] = {}
    for finding in findings:
        messages.setdefault(finding.message, f"{finding.fact.value}: {finding.message}")
    return "; ".join(messages.values()) or None


def head_of(fleet: Inventory) -> Node | None:
    """Return the machine for Ray heads as a node without GPUs.

    None where the inventory names none.
    """
    if fleet.head is None:
        return None
    return Node(name=HEAD, rack=RackName(HEAD), access=fleet.head, gpus=0, gpu_driver=GpuDriver.NONE)


def examine(
    fleet: Inventory, nodes: Sequence[Node], prober: Prober, listener: Listener, needs: TaskNeeds = NOTHING
) -> tuple[Examined, ...]:
    """Return the findings about each of these nodes, all asked at the same time; `needs` are those of a task."""
    meant = [_as_probed(fleet, node) for node in nodes]
    answers = prober.probe(meant, listener, needs)
    return tuple(_judged(fleet, node, answers[node.name], needs) for node in meant)


def compare(part: Sequence[Examined], *, one_domain: bool = True) -> tuple[Finding, ...]:
    """Return findings about facts that must be equal in a slice or NVLink domain."""
    skipped = _OF_A_RUN if one_domain else (*_OF_A_RUN, *_OF_A_DOMAIN)
    return tuple(finding for finding in _alike(part) if finding.fact not in skipped)


def compare_all(nodes: Sequence[Examined]) -> tuple[Finding, ...]:
    """Return findings about facts that must be equal on all nodes of a run."""
    return tuple(finding for finding in _alike(nodes) if finding.fact in _OF_A_RUN)


def compare_machines(nodes: Iterable[Examined]) -> tuple[Finding, ...]:
    """Return findings about nodes that are one machine under several names; the machine for heads may be a node too."""
    members = [(one.node, one.facts) for one in nodes if one.node.name != HEAD and not isinstance(one.facts, Unknown)]
    return check_machines(members)


def needs_of(task: Task, engine: Engine | None) -> TaskNeeds:
    """Return what a task needs of nodes; `engine` is that of groups which name none, as far as it is known."""
    containers = (
        ContainerNeed(
            engine=one.engine or engine,
            image=one.image if one.source is ImageSource.REGISTRY else "",
            gpus=group.gpus > 0,
        )
        for group in task.groups
        if (one := group.container)
    )
    return TaskNeeds(
        folders=_folders(task),
        containers=tuple(dict.fromkeys(containers)),
        mounts=any(one.mode is not MountMode.COPY for one in task.bucket_mounts.values()),
        head=_of_head(task, engine),
        ray=task.ray_group is None,
    )


def _of_head(task: Task, engine: Engine | None) -> tuple[ContainerNeed, ...]:
    """Return the container of a head whose Ray is that of an image."""
    if task.ray_group is None or (one := task.ray_group.container) is None:
        return ()
    image = one.image if one.source is ImageSource.REGISTRY else ""
    return (ContainerNeed(engine=one.engine or engine, image=image),)


def _folders(task: Task) -> tuple[str, ...]:
    """Return the folders of a task's file mounts outside of its workdir, the first `MAX_FOLDERS` of them."""
    outside = (to for to in task.file_mounts if to.startswith(("/", "~/")))
    return tuple(dict.fromkeys(posixpath.dirname(to.rstrip("/")) or "/" for to in outside))[:MAX_FOLDERS]


def _alike(part: Sequence[Examined]) -> tuple[Finding, ...]:
    return check_slice([(one.node, one.facts) for one in part if not isinstance(one.facts, Unknown)])


def _as_probed(fleet: Inventory, node: Node) -> Node:
    """Return a node as the prober sees it.

    Local nodes use the Python of this process and have no GPUs; imaginary ones have no driver that reports domains.
    """
    if fleet.capabilities.own_machines:
        return node
    if fleet.capabilities.this_machine:
        access = replace(node.access, python=node.access.python or sys.executable)
        return replace(node, access=access, gpu_driver=GpuDriver.NONE)
    return replace(node, domain=None, gpu_driver=node.gpu_driver if node.gpus else GpuDriver.NONE)


def _judged(fleet: Inventory, node: Node, facts: Facts | Unknown, needs: TaskNeeds) -> Examined:
    wanted = needs.of_head if node.name == HEAD else needs
    findings = check_node(facts, node, ports=_pinned(fleet, node, facts), needs=wanted)
    if fleet.capabilities.this_machine:
        # Findings about this machine are reported, but do not stop a start: there is no other machine.
        shown = [finding for finding in findings if finding.fact in _OF_A_LOCAL_RACK]
        findings = tuple(replace(one, stops=one.stops and one.fact in _OF_A_RUN) for one in shown)
    return Examined(node=node, facts=facts, findings=findings)


def _pinned(fleet: Inventory, node: Node, facts: Facts | Unknown) -> frozenset[int]:
    """Return the ports that a run would use there.

    The first free block, else the first.
    """
    local = fleet.capabilities.this_machine
    blocks = ports.narrow() if local else ports.heads() if node.name == HEAD else ports.wide()
    wanted = [frozenset(range(start, start + ports.PINNED)) for start in blocks.starts]
    used = frozenset() if isinstance(facts, Unknown) or isinstance(facts.ports, Unknown) else facts.ports
    return next((block for block in wanted if not block & used), wanted[0])
