"""Chooses the engine that runs the containers of a task: one for all nodes, and for all that come later."""

from collections.abc import Iterable, Sequence

from launcher.admission.node_checks import Examined
from launcher.core.model.container import Engine
from launcher.core.model.nodeset import NodeName
from launcher.core.model.task import Task
from launcher.probe.results import Unknown
from launcher.probe.system import ENGINE_COMMANDS

_INSTALL = "install one there, give the user access to it, or exclude the node"


def needed(task: Task, chosen: Engine | None) -> frozenset[Engine | None]:
    """Return the engines that nodes must have: named by groups, else the chosen one; None stands for any."""
    return frozenset(group.container.engine or chosen for group in task.groups if group.container)


def choose(task: Task, named: Engine | None, nodes: Sequence[Examined]) -> Engine | None:
    """Return the engine of groups that name none: that of the inventory, or the first that most of these nodes have.

    None where no group needs one, or no node has any.
    """
    if named is not None or None not in needed(task, None):
        return named
    counts = [(sum(_why_not(one, engine) == "" for one in nodes), engine) for engine in ENGINE_COMMANDS]
    most = max(count for count, _ in counts)
    return next(engine for count, engine in counts if count == most) if most else None


def unfit(task: Task, chosen: Engine | None, nodes: Iterable[Examined]) -> dict[NodeName, str]:
    """Return the nodes that lack an engine which the task needs, each with the reason."""
    wanted = sorted(needed(task, chosen), key=lambda engine: "" if engine is None else engine.value)
    found: dict[NodeName, str] = {}
    for one in nodes:
        for engine in wanted:
            if why := _why_not(one, engine):
                found[one.node.name] = f"containers: {why}"
    return found


def _why_not(one: Examined, engine: Engine | None) -> str:
    """Return why a node cannot run containers of an engine, of any for None."""
    if isinstance(one.facts, Unknown):
        return ""  # why it has not answered is said elsewhere
    told = one.facts.engines
    if engine is not None:
        return told.get(engine, f"engine `{engine.value}` is not supported by this version")
    if any(not why for why in told.values()):
        return ""
    return f"no engine can be used ({'; '.join(told.values())}): {_INSTALL}"
