"""Read a task file to its tasks with all defaults, or report all mistakes."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from launcher.config.schema.patterns import NAME_LENGTH, TASK_NAME, task_name
from launcher.config.task.accelerators import read_accelerators
from launcher.config.task.container import check_ray_image, read_container
from launcher.config.task.envs import (
    Overrides,
    check_overrides,
    check_unknown_names,
    path_variables,
    read_envs,
    read_secrets,
)
from launcher.config.task.file_mounts import KEY as MOUNTS
from launcher.config.task.file_mounts import check_nesting, read_mounts
from launcher.config.task.levels import LEVEL_KEYS
from launcher.config.task.local_paths import PathVariables
from launcher.config.task.nodes_of import colocate_groups
from launcher.config.task.recovery import read_recovery
from launcher.config.task.sections import TaskSections, read_sections
from launcher.config.task.skypilot_docker import with_docker_options
from launcher.config.task.skypilot_scripts import check_scripts
from launcher.config.task.skypilot_service import read_readiness
from launcher.config.task.slice_range import check_ranges
from launcher.config.task.topology import check_near_and_apart, read_rule
from launcher.config.task.traffic import read_traffic
from launcher.config.task.unknown_names import NAME_KEYS
from launcher.config.task.value_types import NO_GPUS
from launcher.config.task.workdir import read_workdir
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.document import parse_documents
from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.text_file import read_text, refuse
from launcher.config.yaml.values import Values
from launcher.core.model.buckets import BucketMount
from launcher.core.model.task import Group, Task
from launcher.errors import Mistake

NOTHING = ":"
"""The command of a task that has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTask:
    """A task, its warnings, and positions for checks against an inventory.

    `marks` has the positions by `(group, key)`, for mounts by `("file_mounts", path)`. `kinds` has the groups that have
    alternative accelerators, one form for each; `task` has the first form. `secrets` has only values of the file.
    """

    task: Task
    warnings: tuple[Mistake, ...] = ()
    where: str = ""
    marks: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    kinds: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_task(path: Path, *, overrides: Overrides | None = None) -> ParsedTask:
    """Return the task of a file, with the overrides of the command line.

    SpecError with every mistake, or for a pipeline of several tasks. A relative `workdir` is relative to the current
    folder, as in SkyPilot.
    """
    return parse_task(read_text(path, what="task file"), path, overrides=overrides)


def parse_task(text: str, path: Path, *, overrides: Overrides | None = None) -> ParsedTask:
    """Return the only task of a text; `path` is its file in messages.

    SpecError with every mistake, or for a pipeline of several tasks.
    """
    first, *more = parse_tasks(text, path, overrides=overrides)
    if more:
        what = f"the file has {len(more) + 1} tasks, which run one after the other: one is needed here"
        raise refuse(str(path), what, hint="write the task into a file of its own")
    return first


def parse_tasks(text: str, path: Path, *, overrides: Overrides | None = None) -> tuple[ParsedTask, ...]:
    """Return the tasks of a text: one, or those of a pipeline in order. SpecError with every mistake.

    The warnings of all are those of the first.
    """
    overrides = overrides or Overrides()
    documents = parse_documents(text, str(path), what="task")
    out = Diagnostics(documents[0].where, documents[0].mistakes)
    stages = read_sections(documents, out)
    check_overrides(overrides, out)
    owners = [owner for one in stages for owner in (one.task, *one.groups.values(), *one.owners)]
    check_unknown_names(owners, overrides, out)
    tasks = [_task(sections, path, of_stage(sections, stages, overrides), out) for sections in stages]
    names: set[str] = set()
    for task, sections in zip(tasks, stages, strict=True):
        if task.task.name in names:
            what = f"two tasks have the name `{task.task.name}`"
            out.mistake(sections.task.mark_of("name"), what, "rename one of the two")
        names.add(task.task.name)
    out.finish()
    return (replace(tasks[0], warnings=out.warnings()), *tasks[1:])


def of_stage(sections: TaskSections, stages: Sequence[TaskSections], overrides: Overrides) -> Overrides:
    """Return the overrides of one task of a pipeline.

    A secret goes to the tasks that name it, or to all if none does.
    """
    if len(stages) == 1:
        return overrides
    named = {
        one.stage: {
            name
            for owner in (one.task, *one.groups.values(), *one.owners)
            for key in ("envs", "secrets")
            for name in owner.entries(key)
        }
        for one in stages
    }
    common = overrides.secrets - set().union(*named.values())
    return replace(overrides, secrets=(overrides.secrets & named[sections.stage]) | common)


def _task(sections: TaskSections, path: Path, overrides: Overrides, out: Diagnostics) -> ParsedTask:
    forms: Mapping[str, tuple[Group, ...]] = {
        name: _forms(name, own, sections.task, overrides, out) for name, own in sections.groups.items()
    }
    check_near_and_apart(sections.groups, out)
    forms = colocate_groups(sections.groups, forms, out)
    check_ranges(sections.groups, sections.task, out)
    check_ray_image(sections.groups, forms, out)
    secrets = read_secrets(sections.owners, overrides, out)
    forms = {name: share_secrets(sections, name, own, overrides) for name, own in forms.items()}
    owners = [(owner, path_variables(owner, secrets, overrides, out)) for owner in sections.owners]
    mounts = _mounts(owners, path.parent, out)
    workdir, git = read_workdir(owners, path.parent, out)
    task = Task(
        name=_name(path, sections, overrides, out),
        groups=tuple(groups[0] for groups in forms.values()),
        workdir=workdir,
        git=git,
        file_mounts={to: source for to, (source, _) in mounts.items() if isinstance(source, str)},
        bucket_mounts={to: source for to, (source, _) in mounts.items() if isinstance(source, BucketMount)},
        secrets=tuple(sorted(secrets)),
        stop_signal=sections.task.get("stop_signal", str) or "TERM",
        stop_grace=_seconds(sections.task, "stop_grace", 60.0),
        time_limit=sections.task.get("time_limit", float),
        priority=_priority(sections, out),
        preemptible=sections.task.get("preemptible", bool) or False,
        movable=sections.task.get("movable", bool) or False,
        dashboard=sections.task.get("dashboard", bool) or False,
        on_event=sections.task.get("on_event", str),
        given_envs=tuple(sorted(overrides.envs)),
    )
    return ParsedTask(
        task=task,
        where=out.where,
        marks={**_marks(sections.groups), **{(MOUNTS, to): mark for to, (_, mark) in mounts.items()}},
        kinds={name: groups for name, groups in forms.items() if len(groups) > 1},
        secrets={name: value for name, value in secrets.items() if value is not None},
    )


def _forms(name: str, own: Values, task: Values, overrides: Overrides, out: Diagnostics) -> tuple[Group, ...]:
    """Return a group once for each alternative accelerator."""
    kinds = read_accelerators(own if own.has("resources") else task, out)
    _check_command(name, own, out, alone=own is task)
    container = with_docker_options(read_container(own, task, out), own, task, out)
    envs = read_envs((task,) if own is task else (task, own), overrides, out)
    check_scripts(own, envs, out)
    return tuple(
        Group(
            name=name,
            topology=read_rule(own, None if kind is None else kind.count, out),
            gpus=(kind or NO_GPUS).count,
            accelerator=(kind or NO_GPUS).kind or None,
            run=own.get("run", str) or ("" if own.has("driver") else NOTHING),
            driver=own.get("driver", str),
            reserve=own.get("reserve", bool) or False,
            setup=own.get("setup", str) or task.get("setup", str),
            envs=envs,
            recovery=read_recovery(own, task, out),
            traffic=read_traffic(own, task),
            container=container,
            readiness=read_readiness(own, (own if own.has("resources") else task).section("resources"), out),
        )
        for kind in kinds or (None,)
    )


def share_secrets(
    sections: TaskSections, name: str, forms: tuple[Group, ...], overrides: Overrides
) -> tuple[Group, ...]:
    """Return a group with the secrets that its own document declares.

    One of the command line that no document declares is for all.
    """
    if sections.owners == (sections.task,):
        return forms
    declared = {owner: set(group.entries("secrets")) for owner, group in sections.groups.items()}
    common = overrides.secrets - set().union(*declared.values())
    return tuple(replace(form, secrets=tuple(sorted(declared[name] | common))) for form in forms)


def _mounts(
    owners: Sequence[tuple[Values, PathVariables]], beside: Path, out: Diagnostics
) -> dict[str, tuple[str | BucketMount, Mark]]:
    """Return the mounts of all owners; the paths of each use its own variables."""
    mounts: dict[str, tuple[str | BucketMount, Mark]] = {}
    for owner, variables in owners:
        for to, (source, mark) in read_mounts(owner, variables, beside, out).items():
            if mounts.setdefault(to, (source, mark))[0] != source:
                what = f"another task of this run copies other files to `{to}`"
                out.mistake(mark, what, "use another path")
    check_nesting(mounts, out)
    return mounts


def _check_command(name: str, own: Values, out: Diagnostics, *, alone: bool) -> None:
    """Report missing and conflicting commands of a group."""
    if not own.has("run") and not own.has("driver"):
        hint = "add `run`: the command that every rank runs"
        if alone:
            after = "`setup` has succeeded on each node" if own.has("setup") else "its files are on each node"
            out.warn(own.mark, f"`run` is missing: the run succeeds once {after}", hint)
        else:
            out.mistake(own.mark, f"`run` is missing in `groups.{name}`", hint)
    if own.written("run", "driver"):
        hint = (
            "remove one of the two: `run` is the command of each rank, `driver` one program that starts its own workers"
        )
        out.mistake(own.key_of("driver"), "`driver` cannot be combined with `run`", hint)
    if own.get("reserve", bool) and not own.has("driver"):
        hint = "remove it: nodes of `run` are always reserved"
        out.mistake(own.key_of("reserve"), "`reserve` requires `driver`", hint)


def _priority(sections: TaskSections, out: Diagnostics) -> int:
    """Return the priority of the run: the task's own, or SkyPilot's in `resources`.

    Several must be equal.
    """
    owners = [sections.task, *(own.section("resources") for own in (sections.task, *sections.groups.values()))]
    numbers = [(number, own.key_of("priority")) for own in owners if (number := own.get("priority", int)) is not None]
    first = numbers[0][0] if numbers else 0
    for number, mark in numbers:
        if number != first:
            what = f"`priority: {number}` contradicts `priority: {first}`"
            out.mistake(mark, what, "keep the `priority` of the task: a run has only one")
    return first


def _name(path: Path, sections: TaskSections, overrides: Overrides, out: Diagnostics) -> str:
    """Return the name of the task: of `--name`, of the file, or the file name.

    In a pipeline, the pipeline's name comes before that of the task, or before its number.
    """
    values, given = sections.task, overrides.name
    if given is not None and not re.fullmatch(TASK_NAME, given):
        what = f"`{given}` is not a valid run name"
        out.mistake(NOWHERE, what, task_name.hint, where="--name")
    written = values.get("name", str)
    if sections.stage:
        before = given or sections.pipeline or ("" if written else _stem(path))
        name = "-".join(part for part in (before, written or str(sections.stage)) if part)
        return _short(name, values.mark_of("name"), out, None)
    if given is not None:
        return _short(given, NOWHERE, out, "--name")
    if written is not None:
        return _short(written, values.mark_of("name"), out, None)
    return _stem(path)


def _stem(path: Path) -> str:
    return re.sub(r"[^a-zA-Z0-9]+", "-", path.stem).strip("-")[:NAME_LENGTH].strip("-") or "task"


def _short(name: str, mark: Mark, out: Diagnostics, where: str | None) -> str:
    if len(name) > NAME_LENGTH:
        what = f"the name has {len(name)} characters; the limit is {NAME_LENGTH}"
        out.mistake(mark, what, "use a shorter name", where=where)
    return name


def _seconds(values: Values, name: str, default: float) -> float:
    seconds = values.get(name, float)
    return default if seconds is None else seconds


def _marks(groups: Mapping[str, Values]) -> dict[tuple[str, str], Mark]:
    keys = (*LEVEL_KEYS, *NAME_KEYS)
    return {(name, key): own.section("topology").mark_of(key) for name, own in groups.items() for key in keys}
