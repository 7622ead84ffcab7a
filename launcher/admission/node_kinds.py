"""Choice of the kind of node, for a task that can run on several.

The first that the inventory can provide.
"""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product

from launcher.admission.context import AdmissionContext
from launcher.admission.domains import with_domains
from launcher.admission.listener import KindChosen
from launcher.config.task.read import ParsedTask
from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, UnavailableNodes
from launcher.core.model.task import Task
from launcher.core.placement.place import place

MAX_COMBINATIONS = 64
"""How many combinations of kinds are tried over all groups of a task."""


def choose_kinds(context: AdmissionContext, parsed: ParsedTask, fleet: Inventory) -> Task:
    """Return the task on the first kinds of node that fit now.

    Else on the first that fit an empty inventory, else on the first.

    Asks no node: an unknown NVLink domain is assumed to be the rack.
    """
    if not parsed.kinds:
        return parsed.task
    known = with_domains(fleet, context.store.domains.of(fleet.name))
    assumed = replace(known, nodes=tuple(replace(node, domain=node.domain or node.rack) for node in known.nodes))
    chosen = _first(parsed, assumed, context.store.unavailable(fleet)) or _first(parsed, assumed, {})
    task = chosen or parsed.task
    for group in task.groups:
        if group.name in parsed.kinds:
            kinds = parsed.kinds[group.name]
            notice = KindChosen(group=group, index=kinds.index(group), total=len(kinds), fits=chosen is not None)
            context.listener.notify(notice)
    return task


def _first(parsed: ParsedTask, fleet: Inventory, taken: UnavailableNodes) -> Task | None:
    return next((task for task in _combinations(parsed) if isinstance(place(task, fleet, taken), Placement)), None)


def _combinations(parsed: ParsedTask) -> Iterator[Task]:
    """Return the task with each combination of kinds, the preferred first.

    The kinds of the last group vary fastest.
    """
    choices = [parsed.kinds.get(group.name, (group,)) for group in parsed.task.groups]
    return (replace(parsed.task, groups=groups) for groups in islice(product(*choices), MAX_COMBINATIONS))
