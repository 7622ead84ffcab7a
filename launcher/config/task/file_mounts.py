"""`file_mounts` of a task: local files and folders, by their paths on the nodes."""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from launcher.config.task.local_paths import PathVariables, find_local, not_found
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.values import FieldValue, Values
from launcher.core.model.inventory import Inventory
from launcher.core.model.task import Task
from launcher.errors import Mistake, SpecError

KEY = "file_mounts"


def read_mounts(task: Values, variables: PathVariables, beside: Path, out: Diagnostics) -> dict[str, tuple[str, Mark]]:
    """Return local paths and positions by path on the nodes.

    Those are absolute, in `~/`, or relative to the workdir. Variables of `envs` are expanded on both sides, as in
    SkyPilot. `beside` is the folder of the task file.
    """
    mounts: dict[str, tuple[str, Mark]] = {}
    for written, found in task.entries(KEY).items():
        to, source = (variables.expand(text, mark, out) for text, mark in _sides(written, found))
        if to is None or source is None:
            continue
        target = _target(to, found.key, out)
        path = _source(source, beside, found.mark, out)
        if target in mounts:
            out.mistake(found.key, f"two `{KEY}` have the target `{target}`", "remove one of the two")
        elif target is not None and path is not None:
            mounts[target] = path, found.key
    return mounts


def _sides(written: str, found: FieldValue) -> tuple[tuple[str, Mark], tuple[str, Mark]]:
    return (written, found.key), (found.value if isinstance(found.value, str) else "", found.mark)


def _target(to: str, mark: Mark, out: Diagnostics) -> str | None:
    """Return the normalised target path.

    A slash at the end is kept: the file goes into that folder.
    """
    if to.startswith("~") and to != "~" and not to.startswith("~/"):
        out.mistake(mark, f"`{to}` is in the home of another user", "write `~/PATH`, or an absolute path")
        return None
    plain = re.sub("^/+", "/", posixpath.normpath(to))
    if plain in ("/", "~", "."):
        out.mistake(mark, f"`{KEY}` cannot replace `{to}`", "name a file or a folder in it")
        return None
    if ".." in plain.split("/")[:2]:
        out.mistake(mark, f"`{to}` is outside of its folder", "write an absolute path, or `~/PATH`")
        return None
    return f"{plain}/" if to.endswith("/") else plain


def _source(written: str, beside: Path, mark: Mark, out: Diagnostics) -> str | None:
    path = find_local(written, beside, mark, out)
    if path is None:
        not_found(written, beside, mark, out)
    elif path.is_dir() or path.is_file():
        return str(path)
    else:
        out.mistake(mark, f"`{written}` is neither a file nor a folder")
    return None


def check_mounts(
    task: Task, inventory: Inventory, *, where: str = "", marks: Mapping[tuple[str, str], Mark] | None = None
) -> None:
    """Raise SpecError if a mount to local racks would overwrite files here.

    `where` and `marks` are those of the ParsedTask, for positions in its file.
    """
    if not inventory.capabilities.this_machine:
        return
    outside = [to for to in task.file_mounts if to.startswith(("/", "~/"))]
    if outside:
        raise SpecError(tuple(_refused(to, (marks or {}).get((KEY, to), NOWHERE), where) for to in outside))


def _refused(to: str, mark: Mark, where: str) -> Mistake:
    return Mistake(
        what=f"`{KEY}` to `{to}` would overwrite your own files: local racks run on this machine",
        where=where or f"`{KEY}`",
        line=mark.line,
        column=mark.column,
        hint=f"write a path relative to the workdir, such as `{posixpath.basename(to.rstrip('/'))}`",
    )
