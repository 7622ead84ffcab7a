"""Chooses the engine that runs the containers of a task: one for all nodes, and for all that come later."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from launcher.admission.node_checks import Examined, needs_of
from launcher.core.model.container import Engine
from launcher.core.model.nodeset import NodeName
from launcher.core.model.task import Task
from launcher.probe import check_containers
from launcher.probe.containers import ENGINE_COMMANDS
from launcher.probe.needs import ContainerNeed
from launcher.probe.results import Unknown


def choose(task: Task, named: Engine | None, nodes: Sequence[Examined]) -> Engine | None:
    """Return the engine of groups that name none: that of the inventory, or the first that most of these nodes have.

    None where no group needs one, or no node has any.
    """
    free = [need for need in needs_of(task, None).containers if need.engine is None]
    if named is not None or not free:
        return named
    fit = {engine: [replace(need, engine=engine) for need in free] for engine in ENGINE_COMMANDS}
    counts = [
        (sum(not any(_why_not(one, need) for need in needs) for one in nodes), engine) for engine, needs in fit.items()
    ]
    most = max(count for count, _ in counts)
    return next(engine for count, engine in counts if count == most) if most else None


def unfit(task: Task, chosen: Engine | None, nodes: Iterable[Examined]) -> dict[NodeName, str]:
    """Return the nodes that cannot run containers of the task with their engine, each with the reason."""
    needs = needs_of(task, chosen).containers
    found: dict[NodeName, str] = {}
    for one in nodes:
        for need in needs:
            if why := _why_not(one, need):
                found[one.node.name] = f"containers: {why}"
    return found


def _why_not(one: Examined, need: ContainerNeed) -> str:
    """Return why a node cannot run a container; that it has not answered is said elsewhere."""
    return "" if isinstance(one.facts, Unknown) else check_containers.unfit(one.facts, one.node, need)
