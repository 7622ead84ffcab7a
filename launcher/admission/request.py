"""A request to run a task.

The task, the machines for it, and the values of its secrets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.admission.context import AdmissionContext
from launcher.admission.listener import FileWarning, InventoryRead
from launcher.admission.node_kinds import choose_kinds
from launcher.config.inventory.read import find_inventory, parse_inventory
from launcher.config.task.envs import Overrides
from launcher.config.task.file_mounts import check_mounts
from launcher.config.task.levels import check_levels
from launcher.config.task.read import ParsedTask, parse_task, read_task
from launcher.config.task.unknown_names import unknown_names
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task

TASK_TEXT, INVENTORY_TEXT = Path("<task>"), Path("<inventory>")
"""What mistakes in a text name instead of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSource:
    """What to read: a task and an inventory, as files or texts, and given values.

    `inventory` is as after `-i`: None is that of $NVLAUNCH_INVENTORY, of `$NVLAUNCH_HOME`, or the built-in local racks.
    `secrets` has values.
    """

    task: Path = TASK_TEXT
    task_text: str | None = None
    inventory: str | None = None
    inventory_text: str | None = None
    name: str | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A task with the inventory to place it on.

    The inventory has all levels that the task names. Secret values are not shown.
    """

    task: Task
    fleet: Inventory
    source: str
    secrets: Mapping[str, str] = field(repr=False)


def read_request(context: AdmissionContext, source: RequestSource) -> Request:
    """Read a task and its inventory; SpecError with every mistake of the task."""
    parsed = _task(source)
    for warning in parsed.warnings:
        context.listener.notify(FileWarning(mistake=warning))
    fleet = _inventory(context, source)
    context.listener.notify(InventoryRead(fleet=fleet))
    check_levels(parsed.task, fleet, where=parsed.where, marks=parsed.marks)
    check_mounts(parsed.task, fleet, where=parsed.where, marks=parsed.marks)
    for warning in unknown_names(parsed.task, fleet, where=parsed.where, marks=parsed.marks):
        context.listener.notify(FileWarning(mistake=warning))
    task = choose_kinds(context, parsed, fleet)
    secrets = {**parsed.secrets, **source.secrets}
    return Request(task=task, fleet=fleet, source=str(source.task.absolute()), secrets=secrets)


def _task(source: RequestSource) -> ParsedTask:
    given = Overrides(name=source.name, envs=source.envs, secrets=frozenset(source.secrets))
    if source.task_text is not None:
        return parse_task(source.task_text, source.task, overrides=given)
    return read_task(source.task, overrides=given)


def _inventory(context: AdmissionContext, source: RequestSource) -> Inventory:
    if source.inventory_text is not None:
        return parse_inventory(source.inventory_text, INVENTORY_TEXT)
    return find_inventory(source.inventory, os.environ, context.store.home)
