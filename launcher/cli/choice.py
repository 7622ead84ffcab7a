"""Which of the kinds of node that a task would run on it gets: the first that the inventory can give it."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product

from launcher.cli.options import home
from launcher.cli.output.console import clean, say
from launcher.config.task.read import ParsedTask
from launcher.core.model.inventory import Inventory
from launcher.core.model.placement import Placement, UnavailableNodes
from launcher.core.model.task import Group, Task
from launcher.core.placement.place import place

MOST = 64
"""How many forms of a task are tried; a file with more in all its groups has them by a slip."""


def choose(parsed: ParsedTask, fleet: Inventory) -> Task:
    """Return the task on the first kinds of node that fit now, else would fit if all nodes were free, else the first.

    Asks no node: an NVLink domain that is not known yet is taken for its rack.
    """
    if not parsed.kinds:
        return parsed.task
    from launcher.admission.preflight import with_domains
    from launcher.store.domains import Domains
    from launcher.store.store import Store

    known = with_domains(fleet, Domains(home()).of(fleet.name))
    assumed = replace(known, nodes=tuple(replace(node, domain=node.domain or node.rack) for node in known.nodes))
    unavailable = Store(home()).unavailable(fleet)
    chosen = _first(parsed, assumed, unavailable) or _first(parsed, assumed, {})
    task = chosen or parsed.task
    for group in task.groups:
        if group.name in parsed.kinds:
            forms = parsed.kinds[group.name]
            of = f"{_kind(group)}, the {_ordinal(forms.index(group))} of {len(forms)} kinds to choose from"
            say(clean(f"group `{group.name}`: {of}{'' if chosen else ', of which none fits'}"))
    return task


def _first(parsed: ParsedTask, fleet: Inventory, unavailable: UnavailableNodes) -> Task | None:
    return next((task for task in _forms(parsed) if isinstance(place(task, fleet, unavailable), Placement)), None)


def _forms(parsed: ParsedTask) -> Iterator[Task]:
    """Return the task in all its forms, the most wanted first; of several groups the last varies first."""
    choices = [parsed.kinds.get(group.name, (group,)) for group in parsed.task.groups]
    return (replace(parsed.task, groups=groups) for groups in islice(product(*choices), MOST))


def _kind(group: Group) -> str:
    return f"`{group.accelerator}:{group.gpus}`" if group.accelerator else "no GPU"


def _ordinal(index: int) -> str:
    return ("first", "second", "third")[index] if index < 3 else f"{index + 1}th"
