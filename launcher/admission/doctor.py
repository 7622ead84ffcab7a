"""Health of nodes, also for what a task needs of them.

Each on its own, and compared with those of its rack.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.admission.domains import unknown_domains
from launcher.admission.node_checks import (
    Examined,
    compare,
    compare_all,
    compare_machines,
    examine,
    needs_of,
)
from launcher.core.model.inventory import Inventory, Node
from launcher.core.model.nodeset import NodeName, fold, natural
from launcher.core.model.task import Task
from launcher.core.model.text import count
from launcher.ports import Listener, Prober
from launcher.probe.check_containers import without_login
from launcher.probe.check_gpu import domain_of
from launcher.probe.findings import CheckResult, Fact, Finding, bad
from launcher.probe.folders import RUNS, FolderTrial
from launcher.probe.needs import NOTHING, ContainerNeed, TaskNeeds
from launcher.probe.results import Unknown
from launcher.setup.lease import read_holder


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A finding about nodes that must be equal.

    Those of one rack and domain, or all that were asked.
    """

    whose: str
    finding: Finding


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """All findings.

    `reported` has the NVLink domains of nodes that the inventory lists without; `notes` is what several nodes have in
    common that is neither good nor bad.
    """

    examined: tuple[Examined, ...]
    shared: tuple[Shared, ...]
    reported: dict[NodeName, str]
    notes: tuple[str, ...] = ()

    def answer(self, one: Examined) -> CheckResult:
        """Return how a node is as a whole: bad, else cannot tell, else good."""
        named = {shared.finding.result for shared in self.shared if one.node.name in shared.finding.nodes}
        said = {finding.result for finding in one.findings} | named
        return next((worst for worst in (CheckResult.BAD, CheckResult.CANNOT_TELL) if worst in said), CheckResult.GOOD)

    @property
    def bad(self) -> bool:
        """Whether anything at all is bad."""
        return any(shared.finding.result is CheckResult.BAD for shared in self.shared) or any(
            one.says(CheckResult.BAD) for one in self.examined
        )


def check_up(
    fleet: Inventory, nodes: Sequence[Node], prober: Prober, listener: Listener, task: Task | None = None
) -> Checkup:
    """Return the findings about these nodes, all asked at the same time.

    Also for what a task needs, or else for containers where the inventory names their engine.
    """
    needs = _needs(fleet, task)
    found = examine(fleet, nodes, prober, listener, needs)
    left_out = frozenset(unknown_domains(fleet))
    reported = {one.node.name: domain for one in found if one.node.name in left_out and (domain := _domain(one))}
    machines = () if fleet.capabilities.this_machine else compare_machines(found)
    shared = (*_shared(found), *(Shared(whose="all", finding=finding) for finding in machines))
    return Checkup(examined=found, shared=shared, reported=reported, notes=(*_notes(found), *_logins(found, needs)))


def _needs(fleet: Inventory, task: Task | None) -> TaskNeeds:
    if task is not None:
        return needs_of(task, fleet.container_engine)
    engine = fleet.container_engine
    return TaskNeeds(containers=(ContainerNeed(engine=engine, gpus=True),)) if engine else NOTHING


def _logins(found: Sequence[Examined], needs: TaskNeeds) -> Iterator[str]:
    """Yield the registries that nodes have no login for."""
    names: dict[str, list[NodeName]] = {}
    for one in found:
        if not isinstance(one.facts, Unknown):
            for registry in without_login(one.facts, needs):
                names.setdefault(registry, []).append(one.node.name)
    for registry, nodes in names.items():
        yield (
            f"no login to `{registry}` on {fold(nodes)}: if it wants one, log in there as the user that nvlaunch "
            f"logs in as, with `docker login {registry}` or what your engine has for it"
        )


def _notes(found: Sequence[Examined]) -> Iterator[str]:
    """Yield which nodes have one home, and which are nodes of Slurm too."""
    homes: dict[str, list[NodeName]] = {}
    slurm: list[NodeName] = []
    for one in found:
        if isinstance(one.facts, Unknown):
            continue
        for folder in one.facts.folders:
            if isinstance(folder, FolderTrial) and folder.path == RUNS and folder.shared:
                homes.setdefault(folder.shared, []).append(one.node.name)
        if not isinstance(one.facts.slurm, Unknown) and one.facts.slurm.daemon:
            slurm.append(one.node.name)
    for source, names in homes.items():
        if len(names) > 1:
            yield f"home is the same on {count(len(names), 'node')} ({fold(names)}): {source}"
    if slurm:
        yield f"slurmd runs on {fold(slurm)}: reserve or drain them in Slurm, which may start jobs there at any time"


def name_leftovers(found: Checkup, ended: Sequence[tuple[str, str]]) -> Checkup:
    """Return the findings with those about agents of runs that have ended (id, name): each is bad, with its command."""
    names = dict(ended)
    return replace(found, examined=tuple(_with_leftovers(one, names) for one in found.examined))


def _with_leftovers(one: Examined, ended: Mapping[str, str]) -> Examined:
    if isinstance(one.facts, Unknown):
        return one
    lease = read_holder(one.facts.lease).run if isinstance(one.facts.lease, str) else ""
    processes = () if isinstance(one.facts.processes, Unknown) else one.facts.processes
    agents = {(process.agent or "").partition(":")[0] for process in processes}
    found = [
        bad(Fact.LEFTOVERS, f"agent of run `{ended[run]}`, which has ended; release it with nvlaunch down {run}")
        for run in sorted({lease, *agents} & ended.keys())
    ]
    return replace(one, findings=(*one.findings, *found)) if found else one


def _shared(found: Sequence[Examined]) -> list[Shared]:
    parts: dict[tuple[str, str], list[Examined]] = {}
    for one in found:
        parts.setdefault((one.node.rack, one.node.domain or _domain(one) or ""), []).append(one)
    shared = [
        Shared(whose=rack, finding=finding)
        for (rack, domain), part in sorted(parts.items(), key=lambda item: natural(item[0][0]))
        for finding in compare(part, one_domain=bool(domain))
    ]
    return [*shared, *(Shared(whose="all", finding=finding) for finding in compare_all(found))]


def _domain(one: Examined) -> str | None:
    return None if isinstance(one.facts, Unknown) else domain_of(one.facts)
