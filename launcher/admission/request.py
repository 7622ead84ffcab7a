"""A request to run a task.

The task, the machines for it, and the values of its secrets.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.admission.context import AdmissionContext
from launcher.admission.listener import FileWarning, InventoryRead
from launcher.admission.node_kinds import choose_kinds
from launcher.config.inventory.read import find_inventory, parse_inventory
from launcher.config.task.envs import Overrides
from launcher.config.task.file_mounts import check_mounts
from launcher.config.task.levels import check_levels
from launcher.config.task.read import ParsedTask, parse_task, parse_tasks
from launcher.config.task.unknown_names import unknown_names
from launcher.config.yaml.text_file import STDIN, STDIN_NAME, read_text
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task
from launcher.errors import Mistake, OtherVersionError, SpecError, refuse
from launcher.setup.environ import long_lists
from launcher.store.run_files import read_secrets, secrets_file

TASK_TEXT, INVENTORY_TEXT = Path("<task>"), Path("<inventory>")
"""What mistakes in a text name instead of a file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestSource:
    """What to read: a task and an inventory, as files or texts, and given values.

    `inventory` is as after `-i`: None is that of $NVLAUNCH_INVENTORY, of `$NVLAUNCH_HOME`, or the built-in local racks.
    `secrets` has values. `values_later`: nothing is started, so secrets need no values.
    """

    task: Path = TASK_TEXT
    task_text: str | None = None
    inventory: str | None = None
    inventory_text: str | None = None
    name: str | None = None
    envs: Mapping[str, str] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    values_later: bool = False


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
    """Read a task and its inventory; SpecError with every mistake of the task, or for a pipeline of several tasks.

    A secret without a value has that of a live run of the task's name, and so has a variable that this run was given
    outside of the file: `up` can only resize that run.
    """
    first, *more = read_requests(context, source)
    if more:
        what = f"the file has {len(more) + 1} tasks, which run one after the other: one is needed here"
        refuse(what, where=str(source.task), hint="`nvlaunch up` runs them; else write the task into a file of its own")
    return first


def read_requests(context: AdmissionContext, source: RequestSource) -> tuple[Request, ...]:
    """Read a task or the tasks of a pipeline, and the inventory; SpecError with every mistake of the tasks.

    Of one task, values are taken from a live run as `read_request` says.
    """
    if source.task == STDIN and source.task_text is None:
        source = replace(source, task=STDIN_NAME, task_text=read_text(STDIN, what="task file"))
    tasks, given = _tasks(context, source)
    for warning in tasks[0].warnings:
        context.listener.notify(FileWarning(mistake=warning))
    fleet = _inventory(context, source)
    context.listener.notify(InventoryRead(fleet=fleet))
    return tuple(_request(context, source, parsed, given, fleet) for parsed in tasks)


def _request(
    context: AdmissionContext, source: RequestSource, parsed: ParsedTask, given: Mapping[str, str], fleet: Inventory
) -> Request:
    check_levels(parsed.task, fleet, where=parsed.where, marks=parsed.marks)
    check_mounts(parsed.task, fleet, where=parsed.where, marks=parsed.marks)
    for warning in unknown_names(parsed.task, fleet, where=parsed.where, marks=parsed.marks):
        context.listener.notify(FileWarning(mistake=warning))
    for group, key in long_lists(parsed.task, fleet):
        what = f"`{key}` of `{group}` reads a list of addresses that is too long for a variable, and is not set"
        hint = "read the file that `NVLAUNCH_NODE_IPS_FILE` names: one address a line"
        context.listener.notify(FileWarning(mistake=Mistake(what=what, where=parsed.where, hint=hint)))
    task = choose_kinds(context, parsed, fleet)
    secrets = {name: value for name, value in {**parsed.secrets, **given}.items() if name in parsed.task.secrets}
    file = str(source.task if source.task == STDIN_NAME else source.task.absolute())
    return Request(task=task, fleet=fleet, source=file, secrets=secrets)


def _tasks(context: AdmissionContext, source: RequestSource) -> tuple[tuple[ParsedTask, ...], Mapping[str, str]]:
    """Return the tasks, and the values of secrets that are given or stored."""
    text = read_text(source.task, what="task file") if source.task_text is None else source.task_text
    given = Overrides(
        name=source.name,
        envs=source.envs,
        secrets=frozenset(source.secrets),
        values_later=source.values_later,
    )
    given = replace(given, envs={**_stored_envs(context, text, source.task, given), **source.envs})
    try:
        return parse_tasks(text, source.task, overrides=given), source.secrets
    except SpecError:
        stored = _stored_secrets(context, text, source.task, replace(given, values_later=True))
        if not stored:
            raise
    secrets = {**stored, **source.secrets}
    return parse_tasks(text, source.task, overrides=replace(given, secrets=frozenset(secrets))), secrets


def _stored_envs(context: AdmissionContext, text: str, path: Path, given: Overrides) -> dict[str, str]:
    """Return the variables that a live run of the task's name was given outside of its file, and that are not given.

    Where the file does not say what some of them are, the run is found by what its own values make of the file.
    """
    given = replace(given, values_later=True)
    name = _name(text, path, given)
    for row in context.store.live()[0]:
        if name not in (None, row.name):
            continue
        try:
            task = context.store.load(row.id)[0].task
        except OtherVersionError:
            continue
        values = {key: value for group in task.groups for key, value in group.envs.items() if key in task.given_envs}
        missing = {key: value for key, value in values.items() if key not in given.envs and key not in given.secrets}
        if missing and _name(text, path, replace(given, envs={**missing, **given.envs})) == row.name:
            return missing
    return {}


def _name(text: str, path: Path, given: Overrides) -> str | None:
    """Return the name of a task; None where it has mistakes."""
    try:
        return parse_task(text, path, overrides=given).task.name
    except SpecError:
        return None


def _stored_secrets(context: AdmissionContext, text: str, path: Path, given: Overrides) -> dict[str, str]:
    """Return the values that a live run has of the secrets that lack one."""
    try:
        parsed = parse_task(text, path, overrides=given)
    except SpecError:
        return {}
    lacking = {*parsed.task.secrets} - parsed.secrets.keys() - given.secrets
    for row in context.store.live()[0]:
        if row.name == parsed.task.name:
            kept = read_secrets(secrets_file(context.store.home, row.id))
            return {name: value for name, value in kept.items() if name in lacking}
    return {}


def _inventory(context: AdmissionContext, source: RequestSource) -> Inventory:
    if source.inventory_text is not None:
        return parse_inventory(source.inventory_text, INVENTORY_TEXT)
    return find_inventory(source.inventory, os.environ, context.store.home)
