"""The sections of a task file: the keys of the run, and of each group."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.config.schema.patterns import group_name
from launcher.config.task.fields import HEADER, MEMBER, TASK
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.document import Document
from launcher.config.yaml.nodes import MappingNode, ScalarNode
from launcher.config.yaml.values import Values

ONLY_GROUP = "main"


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSections:
    """`task` has the keys of the run, `groups` those of each group by name.

    `owners` are the sections with workdir, file mounts and secrets. `stage` is the number of a task of a pipeline, from
    1 on, and `pipeline` the pipeline's name, if it has one; a task that is no part of a pipeline is stage 0.
    """

    task: Values
    groups: Mapping[str, Values]
    owners: tuple[Values, ...]
    stage: int = 0
    pipeline: str | None = None


def read_sections(documents: Sequence[Document], out: Diagnostics) -> tuple[TaskSections, ...]:
    """Return the sections of one task, or of SkyPilot's several documents: those of a pipeline in order.

    The tasks of a job group become groups of one task. sky/utils/dag_utils.py tells the two apart in the same way.
    """
    first, *more = documents
    keys = {key.text: value for key, value in first.root.pairs}
    mode = keys.get("execution")
    if more and isinstance(mode, ScalarNode) and mode.text == "parallel":
        return (_job_group(first.root, [document.root for document in more], out),)
    headed = bool(more) and keys.keys() <= {"name", "execution"}
    header, tasks = (HEADER.read(first.root, KeyPath("", out)), more) if headed else (Values(), documents)
    read = [TASK.read(document.root, KeyPath("", out)) for document in tasks]
    if len(read) == 1:
        return (_single(replace(read[0], found={**read[0].found, **header.found}), out),)
    name = header.get("name", str)
    return tuple(replace(_single(task, out), stage=at, pipeline=name) for at, task in enumerate(read, start=1))


def _single(task: Values, out: Diagnostics) -> TaskSections:
    """Return the sections of one task; without `groups` it is the only group."""
    if not task.has("groups"):
        return TaskSections(task=task, groups={ONLY_GROUP: task}, owners=(task,))
    for name in ("run", "driver", "topology", "num_nodes"):
        if name in task.found:
            what = f"`{name}` cannot be combined with `groups`"
            out.mistake(task.key_of(name), what, f"move `{name}` into the groups")
    read = {name: found.value for name, found in task.entries("groups").items()}
    groups = {name: value for name, value in read.items() if isinstance(value, Values)}
    return TaskSections(task=task, groups=groups, owners=(task,))


def _job_group(root: MappingNode, tasks: Sequence[MappingNode], out: Diagnostics) -> TaskSections:
    header = HEADER.read(root, KeyPath("", out))
    groups: dict[str, Values] = {}
    for values in (MEMBER.read(task, KeyPath("", out)) for task in tasks):
        name = _group_name(values, out)
        if name in groups:
            out.mistake(values.mark_of("name"), f"two tasks have the name `{name}`", "rename one of the two")
        elif name:
            groups[name] = values
    _check_primary(header, groups, out)
    return TaskSections(task=header, groups=groups, owners=tuple(groups.values()))


def _group_name(task: Values, out: Diagnostics) -> str:
    """Return the name of a task as a valid group name; empty if it has none."""
    written = task.get("name", str)
    if written is None:
        return ""
    name = re.sub(r"[._-]+", "-", written.lower())
    if not re.fullmatch(str(group_name.pattern), name):
        out.mistake(task.mark_of("name"), f"`{written}` is not {group_name.expected}", group_name.hint)
        return ""
    if name != written:
        out.warn(task.mark_of("name"), f"task `{written}` is renamed to group `{name}`")
    return name


def _check_primary(header: Values, groups: Mapping[str, Values], out: Diagnostics) -> None:
    """Report primary tasks, unless all tasks are primary.

    The end of one group does not stop another.
    """
    names = {re.sub(r"[._-]+", "-", text.lower()): text for text in header.texts("primary_tasks")}
    for name, written in names.items():
        if name not in groups:
            out.mistake(header.mark_of("primary_tasks"), f"`primary_tasks` names `{written}`, which is not a task")
    if names and names.keys() < groups.keys():
        what = "`primary_tasks` is not supported: a run ends when all of its groups have ended"
        out.mistake(header.key_of("primary_tasks"), what, "remove it, and let each task end by itself")
    elif header.has("termination_delay"):
        what = "`termination_delay` has no effect: no task is stopped when another one ends"
        out.warn(header.key_of("termination_delay"), what)
