"""A task file to a Task: all its mistakes at once, or what to run with every default filled in."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from launcher.config.schema.patterns import NAME_LENGTH, TASK_NAME, task_name
from launcher.config.schema.values import NO_GPUS
from launcher.config.task.envs import Given, check_given, read_envs, read_secrets
from launcher.config.task.kinds import read_kinds
from launcher.config.task.levels import LEVEL_KEYS
from launcher.config.task.mounts import KEY as MOUNTS
from launcher.config.task.mounts import read_mounts
from launcher.config.task.named import NAME_KEYS
from launcher.config.task.recovery import read_recovery
from launcher.config.task.scripts import check_scripts
from launcher.config.task.sharing import slot_guests
from launcher.config.task.sheet import Sheet, read_sheet
from launcher.config.task.topology import check_company, read_rule
from launcher.config.yaml.document import parse_documents
from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.reading import Reading, Values
from launcher.config.yaml.source import read_text
from launcher.core.model.task import Group, Task
from launcher.errors import Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedTask:
    """A task, what its user should know of it, and where its levels and mounts are named: `(group, key)` or
    `("file_mounts", path)` to a place in `where`.

    `kinds` has the groups that may run on several kinds of node, each in all its forms; `task` has the first of each.
    `secrets` has the values that the file itself holds; those given on the command line are not seen here.
    """

    task: Task
    warnings: tuple[Mistake, ...] = ()
    where: str = ""
    places: Mapping[tuple[str, str], Mark] = field(default_factory=dict)
    kinds: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


def read_task(path: Path, *, given: Given | None = None) -> ParsedTask:
    """Return the task that a file describes together with the command line; SpecError with every mistake in it.

    A relative `workdir` is relative to the current folder, as with SkyPilot.
    """
    return parse_task(read_text(path, what="task file"), path, given=given)


def parse_task(text: str, path: Path, *, given: Given | None = None) -> ParsedTask:
    """Return the same of a text that was read from a file of that name."""
    given = given or Given()
    documents = parse_documents(text, str(path), what="task")
    out = Reading(documents[0].where, documents[0].mistakes)
    sheet = read_sheet(documents, out)
    check_given(given, out)
    forms: Mapping[str, tuple[Group, ...]] = {
        name: _forms(name, own, sheet.task, given, out) for name, own in sheet.roles.items()
    }
    check_company(sheet.roles, out)
    forms = slot_guests(sheet.roles, forms, out)
    secrets = read_secrets(sheet.owners, given, out)
    mounts = _mounts(sheet, secrets, given, out)
    task = Task(
        name=_name(path, sheet.task, given, out),
        groups=tuple(groups[0] for groups in forms.values()),
        workdir=_workdir(sheet.owners, out),
        file_mounts={to: source for to, (source, _) in mounts.items()},
        secrets=tuple(sorted(secrets)),
        stop_signal=sheet.task.get("stop_signal", str) or "TERM",
        stop_grace=_seconds(sheet.task, "stop_grace", 60.0),
        time_limit=sheet.task.get("time_limit", float),
        priority=_priority(sheet, out),
        preemptible=sheet.task.get("preemptible", bool) or False,
        on_event=sheet.task.get("on_event", str),
    )
    out.finish()
    return ParsedTask(
        task=task,
        warnings=out.warnings(),
        where=out.where,
        places={**_places(sheet.roles), **{(MOUNTS, to): mark for to, (_, mark) in mounts.items()}},
        kinds={name: groups for name, groups in forms.items() if len(groups) > 1},
        secrets={name: value for name, value in secrets.items() if value is not None},
    )


def _forms(name: str, own: Values, task: Values, given: Given, out: Reading) -> tuple[Group, ...]:
    """Return a group once for each kind of node that it may run on."""
    kinds = read_kinds(own if own.has("resources") else task, out)
    _check_command(name, own, out, alone=own is task)
    envs = read_envs((task,) if own is task else (task, own), given, out)
    check_scripts(own, envs, out)
    return tuple(
        Group(
            name=name,
            topology=read_rule(own, None if kind is None else kind.count, out),
            gpus=(kind or NO_GPUS).count,
            accelerator=(kind or NO_GPUS).kind or None,
            run=own.get("run", str) or "",
            driver=own.get("driver", str),
            reserve=own.get("reserve", bool) or False,
            setup=own.get("setup", str) or task.get("setup", str),
            envs=envs,
            recovery=read_recovery(own, task, out),
        )
        for kind in kinds or (None,)
    )


def _mounts(sheet: Sheet, secrets: Mapping[str, object], given: Given, out: Reading) -> dict[str, tuple[str, Mark]]:
    """Return the mounts of all owners; each fills in its own variables."""
    mounts: dict[str, tuple[str, Mark]] = {}
    for owner in sheet.owners:
        for to, (source, mark) in read_mounts(owner, read_envs((owner,), given, out), secrets, out).items():
            if mounts.setdefault(to, (source, mark))[0] != source:
                out.mistake(mark, f"another task of this run has other files for `{to}`", "name another place")
    return mounts


def _check_command(name: str, own: Values, out: Reading, *, alone: bool) -> None:
    """Note a group that has neither `run` nor `driver`, or both, and `reserve` where nothing is driven."""
    if not own.has("run") and not own.has("driver"):
        what = "`run` is missing" if alone else f"`groups.{name}` needs `run`"
        out.mistake(own.mark, what, "add `run`: the command that every rank runs")
    if own.written("run", "driver"):
        hint = "`run` is for each rank, `driver` for one program that makes its own: keep one of them"
        out.mistake(own.key_of("driver"), "`driver` stands beside `run`", hint)
    if own.get("reserve", bool) and not own.has("driver"):
        out.mistake(
            own.key_of("reserve"), "`reserve` is for a `driver`", "remove it: nodes of `run` are always reserved"
        )


def _priority(sheet: Sheet, out: Reading) -> int:
    """Return the priority of the run: the task's own, or SkyPilot's under `resources`; several must agree."""
    sections = [sheet.task, *(own.section("resources") for own in (sheet.task, *sheet.roles.values()))]
    numbers = [(number, own.key_of("priority")) for own in sections if (number := own.get("priority", int)) is not None]
    first = numbers[0][0] if numbers else 0
    for number, mark in numbers:
        if number != first:
            what = f"`priority: {number}` beside `priority: {first}`: a run has one"
            out.mistake(mark, what, "keep the one of the task")
    return first


def _name(path: Path, values: Values, given: Given, out: Reading) -> str:
    """Return the name: given, written, or else that of the file."""
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


def _workdir(owners: Sequence[Values], out: Reading) -> str | None:
    """Return the folder that goes to every node; tasks of a job group that name several must mean one."""
    folders: dict[str, Mark] = {}
    for owner in owners:
        if (folder := _folder(owner, out)) is not None:
            folders.setdefault(folder, owner.key_of("workdir"))
    for mark in list(folders.values())[1:]:
        out.mistake(mark, "another task of this run has another `workdir`", "name a folder that has both")
    return next(iter(folders), None)


def _folder(owner: Values, out: Reading) -> str | None:
    written = owner.get("workdir", str)
    if written is None:
        return None
    try:
        folder = Path(written).expanduser().absolute()
        if folder.is_dir():
            return str(folder)
        what = f"`workdir: {written}` is not a folder" if folder.exists() else f"`workdir: {written}` does not exist"
    except (OSError, RuntimeError, ValueError):  # no such user's home, or a name that no file can have
        what = f"`workdir: {written}` does not exist"
    out.mistake(owner.mark_of("workdir"), what, f"it is relative to the current folder, `{Path.cwd()}`")
    return None


def _seconds(values: Values, name: str, default: float) -> float:
    seconds = values.get(name, float)
    return default if seconds is None else seconds


def _places(roles: Mapping[str, Values]) -> dict[tuple[str, str], Mark]:
    keys = (*LEVEL_KEYS, *NAME_KEYS)
    return {(name, key): own.section("topology").mark_of(key) for name, own in roles.items() for key in keys}
