"""What a task file says, sorted by whom it is said of: of the whole run, or of one of its groups."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from launcher.config.schema.patterns import group_name
from launcher.config.task.fields import HEADER, MEMBER, TASK
from launcher.config.yaml.document import Document
from launcher.config.yaml.nodes import Pairs, Scalar
from launcher.config.yaml.reading import Reading, Spot, Values

ONLY_GROUP = "main"

_APART = (
    "give each its own file: `nvlaunch up a.yaml && nvlaunch up b.yaml` starts b when a has succeeded; tasks that run "
    "together are `groups:` of one task"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """`task` is said of the run, `roles` of each group by its name; `owners` name workdir, file mounts and secrets."""

    task: Values
    roles: Mapping[str, Values]
    owners: tuple[Values, ...]


def read_sheet(documents: Sequence[Document], out: Reading) -> Sheet:
    """Return what the documents of a task file say: one task, or SkyPilot's several.

    Those are a job group, whose tasks become groups, or a pipeline, which has to have one task: nothing here runs one
    after another. Which of them: sky/utils/dag_utils.py.
    """
    first, *more = documents
    keys = {key.text: value for key, value in first.root.pairs}
    mode = keys.get("execution")
    if more and isinstance(mode, Scalar) and mode.text == "parallel":
        return _job_group(first.root, [document.root for document in more], out)
    headed = bool(more) and keys.keys() <= {"name", "execution"}
    header, tasks = (HEADER.read(first.root, Spot("", out)), more) if headed else (Values(), documents)
    if len(tasks) > 1:
        if not out.wrong():
            out.mistake(tasks[1].begins, "a pipeline, which is one task after another, is not supported", _APART)
        out.finish()
    task = TASK.read(tasks[0].root, Spot("", out))
    return _single(replace(task, found={**task.found, **header.found}), out)


def _single(task: Values, out: Reading) -> Sheet:
    """Return the sheet of one task, which is its own only group where it names none."""
    if not task.has("groups"):
        return Sheet(task=task, roles={ONLY_GROUP: task}, owners=(task,))
    for name in ("run", "driver", "topology", "num_nodes"):
        if name in task.found:
            out.mistake(task.key_of(name), f"`{name}` beside `groups`", f"move `{name}` into the groups")
    read = {name: found.value for name, found in task.entries("groups").items()}
    roles = {name: value for name, value in read.items() if isinstance(value, Values)}
    return Sheet(task=task, roles=roles, owners=(task,))


def _job_group(root: Pairs, tasks: Sequence[Pairs], out: Reading) -> Sheet:
    header = HEADER.read(root, Spot("", out))
    roles: dict[str, Values] = {}
    for values in (MEMBER.read(task, Spot("", out)) for task in tasks):
        name = _role(values, out)
        if name in roles:
            out.mistake(values.mark_of("name"), f"two tasks are named `{name}`", "give each a name of its own")
        elif name:
            roles[name] = values
    _check_primary(header, roles, out)
    return Sheet(task=header, roles=roles, owners=tuple(roles.values()))


def _role(task: Values, out: Reading) -> str:
    """Return the name of a group for a task: its own, in the letters that a group may have; empty where it has none."""
    written = task.get("name", str)
    if written is None:
        return ""
    name = re.sub(r"[._-]+", "-", written.lower())
    if not re.fullmatch(str(group_name.pattern), name):
        out.mistake(task.mark_of("name"), f"`{written}` cannot be {group_name.word}", group_name.hint)
        return ""
    if name != written:
        out.warn(task.mark_of("name"), f"the task `{written}` is group `{name}` here")
    return name


def _check_primary(header: Values, roles: Mapping[str, Values], out: Reading) -> None:
    """Note primary tasks that are not all of them: no group is ended because another one has done its work."""
    names = {re.sub(r"[._-]+", "-", text.lower()): text for text in header.texts("primary_tasks")}
    for name, written in names.items():
        if name not in roles:
            out.mistake(
                header.mark_of("primary_tasks"), f"`primary_tasks` names `{written}`, and no task has that name"
            )
    if names and names.keys() < roles.keys():
        what = "`primary_tasks` is not supported: a run ends when all of its groups have ended"
        out.mistake(header.key_of("primary_tasks"), what, "remove it, and let the other tasks end by themselves")
    elif header.has("termination_delay"):
        what = "`termination_delay` has no effect: every task is a primary one, and ends by itself"
        out.warn(header.key_of("termination_delay"), what)
