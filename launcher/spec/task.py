"""A task file to a Task: all its mistakes at once, or what to run with every default filled in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from launcher.core.task import Group, OnNoSpare, RecoveryPolicy, RestartWith, Task
from launcher.errors import Mistake
from launcher.spec.counts import read_rule
from launcher.spec.document import read_document
from launcher.spec.envs import Given, check_given, read_envs, read_secrets
from launcher.spec.mounts import KEY as MOUNTS
from launcher.spec.mounts import read_mounts
from launcher.spec.nodes import NOWHERE, Mark
from launcher.spec.patterns import NAME_LENGTH, TASK_NAME, task_name
from launcher.spec.reading import Reading, Spot, Values
from launcher.spec.task_fields import TASK
from launcher.spec.values import NO_GPUS, Accelerator

ONLY_GROUP = "main"

_SEVERAL = "several documents (pipelines, job groups)"
_ONE_EACH = "give each its own file; roles that run together are `groups:` of one task"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTask:
    """A task, what its user should know of it, and where its levels and mounts are named: `(group, key)` or
    `("file_mounts", path)` to a place in `where`.

    `secrets` has the values that the file itself holds; those given on the command line are not seen here.
    """

    task: Task
    warnings: tuple[Mistake, ...] = ()
    where: str = ""
    places: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_task(path: Path, *, given: Given | None = None) -> ParsedTask:
    """Answer the task that a file describes together with the command line; SpecError with every mistake in it.

    A relative `workdir` is relative to the current folder, as with SkyPilot.
    """
    given = given or Given()
    document = read_document(path, what="task", several=_SEVERAL, hint=_ONE_EACH)
    out = Reading(document.where, document.mistakes)
    values = TASK.read(document.root, Spot("", out))
    check_given(given, out)
    roles = _roles(values, out)
    groups = tuple(_group(name, own, values, given, out) for name, own in roles.items())
    secrets = read_secrets(values, given, out)
    mounts = read_mounts(values, read_envs((values,), given, out), secrets, out)
    task = Task(
        name=_name(path, values, given, out),
        groups=groups,
        workdir=_workdir(values, out),
        file_mounts={to: source for to, (source, _) in mounts.items()},
        secrets=tuple(sorted(secrets)),
        stop_signal=values.get("stop_signal", str) or "TERM",
        stop_grace=_seconds(values, "stop_grace", 60.0),
        time_limit=values.get("time_limit", float),
        priority=_priority(values, roles, out),
        preemptible=values.get("preemptible", bool) or False,
        on_event=values.get("on_event", str),
    )
    out.finish()
    return ParsedTask(
        task=task,
        warnings=out.warnings(),
        where=document.where,
        places={**_places(roles), **{(MOUNTS, to): mark for to, (_, mark) in mounts.items()}},
        secrets={name: value for name, value in secrets.items() if value is not None},
    )


def _roles(task: Values, out: Reading) -> dict[str, Values]:
    """Answer each group's own section; the task itself is the only group where it names none."""
    if not task.has("groups"):
        return {ONLY_GROUP: task}
    for name in ("run", "driver", "topology", "num_nodes"):
        if name in task.found:
            out.mistake(task.key_of(name), f"`{name}` beside `groups`", f"move `{name}` into the groups")
    read = {name: found.value for name, found in task.entries("groups").items()}
    return {name: value for name, value in read.items() if isinstance(value, Values)}


def _group(name: str, own: Values, task: Values, given: Given, out: Reading) -> Group:
    alone = own is task
    accelerator = _accelerator(own if own.has("resources") else task, out)
    _check_command(name, own, out, alone=alone)
    return Group(
        name=name,
        topology=read_rule(own, None if accelerator is None else accelerator.count, out),
        gpus=(accelerator or NO_GPUS).count,
        accelerator=(accelerator or NO_GPUS).kind or None,
        run=own.get("run", str) or "",
        driver=own.get("driver", str),
        reserve=own.get("reserve", bool) or False,
        setup=own.get("setup", str) or task.get("setup", str),
        envs=read_envs((task,) if alone else (task, own), given, out),
        recovery=_recovery(own.section("recovery"), task.section("recovery")),
    )


def _check_command(name: str, own: Values, out: Reading, *, alone: bool) -> None:
    """Note a group that has neither `run` nor `driver`, or both, and `reserve` where nothing is driven."""
    if not own.has("run") and not own.has("driver"):
        what = "`run` is missing" if alone else f"`groups.{name}` needs `run`"
        out.mistake(own.mark, what, "add `run`: the command that every rank runs")
    if own.has("run") and own.has("driver"):
        hint = "`run` is for each rank, `driver` for one program that makes its own: keep one of them"
        out.mistake(own.key_of("driver"), "`driver` stands beside `run`", hint)
    if own.get("reserve", bool) and not own.has("driver"):
        out.mistake(
            own.key_of("reserve"), "`reserve` is for a `driver`", "remove it: nodes of `run` are always reserved"
        )


def _accelerator(owner: Values, out: Reading) -> Accelerator | None:
    """Answer what each node must have; None where it is wrong, which is said already."""
    resources = owner.section("resources")
    if resources.has("accelerators") and resources.has("gpus"):
        out.mistake(resources.key_of("gpus"), "`gpus` and `accelerators` are two names of one key", "keep one of them")
    for name in ("accelerators", "gpus"):
        if resources.has(name):
            return resources.get(name, Accelerator)
    broken = owner.has("resources") and owner.get("resources", Values) is None
    return None if broken or resources.has("any_of") or resources.has("ordered") else NO_GPUS


def _recovery(own: Values, task: Values) -> RecoveryPolicy:
    default = RecoveryPolicy()

    def count(name: str, otherwise: int) -> int:
        numbers = (own.get(name, int), task.get(name, int), otherwise)
        return next(number for number in numbers if number is not None)

    hang = own.get("hang_after", float)
    return RecoveryPolicy(
        max_restarts=count("max_restarts", default.max_restarts),
        node_attempts=count("node_attempts", default.node_attempts),
        restart_with=RestartWith(own.get("restart_with", str) or task.get("restart_with", str) or "run"),
        on_no_spare=OnNoSpare(own.get("on_no_spare", str) or task.get("on_no_spare", str) or "wait"),
        hang_after=task.get("hang_after", float) if hang is None else hang,
    )


def _priority(task: Values, roles: Mapping[str, Values], out: Reading) -> int:
    """Answer the priority of the run: the task's own, or SkyPilot's under `resources`; several must agree."""
    named = [task, task.section("resources"), *(own.section("resources") for own in roles.values())]
    told = [(owner.get("priority", int), owner.key_of("priority")) for owner in named if owner.has("priority")]
    numbers = [(number, mark) for number, mark in told if number is not None]
    first = numbers[0][0] if numbers else 0
    for number, mark in numbers:
        if number != first:
            what = f"`priority: {number}` beside `priority: {first}`: a run has one"
            out.mistake(mark, what, "keep the one of the task")
    return first


def _name(path: Path, values: Values, given: Given, out: Reading) -> str:
    """Answer the name: given, written, or else that of the file."""
    if given.name is not None:
        if not re.fullmatch(TASK_NAME, given.name):
            out.mistake(NOWHERE, f"`{given.name}` cannot be the name of a run", task_name.hint, where="--name")
        return _short(given.name, NOWHERE, out, "--name")
    written = values.get("name", str)
    if written is not None:
        return _short(written, values.mark_of("name"), out, None)
    return re.sub(r"[^a-zA-Z0-9]+", "-", path.stem).strip("-")[:NAME_LENGTH].strip("-") or "task"


def _short(name: str, mark: Mark, out: Reading, where: str | None) -> str:
    if len(name) > NAME_LENGTH:
        what = f"the name has {len(name)} characters, and may have {NAME_LENGTH}"
        out.mistake(mark, what, "the name is part of paths and labels: choose a shorter one", where=where)
    return name


def _workdir(values: Values, out: Reading) -> str | None:
    written = values.get("workdir", str)
    if written is None:
        return None
    try:
        folder = Path(written).expanduser().absolute()
        if folder.is_dir():
            return str(folder)
        what = f"`workdir: {written}` is not a folder" if folder.exists() else f"`workdir: {written}` does not exist"
    except (OSError, RuntimeError, ValueError):  # no such user's home, or a name that no file can have
        what = f"`workdir: {written}` does not exist"
    out.mistake(values.mark_of("workdir"), what, f"it is relative to the current folder, `{Path.cwd()}`")
    return None


def _seconds(values: Values, name: str, default: float) -> float:
    seconds = values.get(name, float)
    return default if seconds is None else seconds


def _places(roles: Mapping[str, Values]) -> dict[tuple[str, str], Mark]:
    keys = ("within", "prefer", "spread")
    return {(name, key): own.section("topology").mark_of(key) for name, own in roles.items() for key in keys}
