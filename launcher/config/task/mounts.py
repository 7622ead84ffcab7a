"""`file_mounts` of a task: local files and folders, and where they go on the nodes."""

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path

from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.config.yaml.reading import Found, Reading, Values
from launcher.core.model.inventory import Inventory, Transport
from launcher.core.model.task import Task
from launcher.errors import Mistake, SpecError

KEY = "file_mounts"

# sky/task.py, _fill_in_env_vars: `$NAME` and `${NAME}`.
_VARIABLE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?")


def read_mounts(
    task: Values, envs: Mapping[str, str], secrets: Mapping[str, object], out: Reading
) -> dict[str, tuple[str, Mark]]:
    """Return local paths by where they go (absolute, in `~/`, or relative to the workdir), and where each stands.

    Variables of `envs` are filled in on both sides, as with SkyPilot.
    """
    mounts: dict[str, tuple[str, Mark]] = {}
    for written, found in task.entries(KEY).items():
        to, source = (_filled(text, mark, envs, secrets, out) for text, mark in _sides(written, found))
        if to is None or source is None:
            continue
        place = _place(to, found.key, out)
        path = _source(source, found.mark, out)
        if place in mounts:
            out.mistake(found.key, f"two `{KEY}` go to `{place}`", "keep one of them")
        elif place is not None and path is not None:
            mounts[place] = path, found.key
    return mounts


def _sides(written: str, found: Found) -> tuple[tuple[str, Mark], tuple[str, Mark]]:
    return (written, found.key), (found.value if isinstance(found.value, str) else "", found.mark)


def _filled(text: str, mark: Mark, envs: Mapping[str, str], secrets: Mapping[str, object], out: Reading) -> str | None:
    """Return the text with its variables filled in; None where one is missing, which is noted, or nothing is there."""
    for name in _VARIABLE.findall(text):
        if name in secrets:
            out.mistake(mark, f"`{name}` is a secret, and paths are shown", "name the path without it")
        elif name not in envs:
            out.mistake(mark, f"`${{{name}}}` is not one of `envs`", f"add `{name}` to `envs`")
        else:
            continue
        return None
    return _VARIABLE.sub(lambda match: envs[match[1]], text) or None


def _place(to: str, mark: Mark, out: Reading) -> str | None:
    """Return where a mount goes, in its plainest form; a slash at the end is kept: the file goes into that folder."""
    if to.startswith("~") and to != "~" and not to.startswith("~/"):
        out.mistake(mark, f"`{to}` is not in the home of the nodes' user", "write `~/PATH`, or an absolute path")
        return None
    plain = re.sub("^/+", "/", posixpath.normpath(to))
    if plain in ("/", "~", "."):
        out.mistake(mark, f"`{KEY}` cannot take the place of `{to}`", "name a file or a folder in it")
        return None
    if ".." in plain.split("/")[:2]:
        out.mistake(
            mark, f"`{to}` leads out of the folder that it is relative to", "write an absolute path, or `~/PATH`"
        )
        return None
    return f"{plain}/" if to.endswith("/") else plain


def _source(written: str, mark: Mark, out: Reading) -> str | None:
    try:
        path = Path(written).expanduser().absolute()
        if path.is_dir() or path.is_file():
            return str(path)
        what = f"`{written}` is neither a file nor a folder" if path.exists() else f"`{written}` does not exist"
    except (OSError, RuntimeError, ValueError):  # no such user's home, or a name that no file can have
        what = f"`{written}` does not exist"
    out.mistake(mark, what, f"it is relative to the current folder, `{Path.cwd()}`")
    return None


def check_mounts(
    task: Task, inventory: Inventory, *, where: str = "", places: Mapping[tuple[str, str], Mark] | None = None
) -> None:
    """Raise SpecError where a mount would go to this very machine's files, because the racks are only pretended here.

    `where` and `places` are those of the ParsedTask, for messages that point into its file.
    """
    if inventory.transport is not Transport.LOCAL:
        return
    outside = [to for to in task.file_mounts if to.startswith(("/", "~/"))]
    if outside:
        raise SpecError(tuple(_refused(to, (places or {}).get((KEY, to), NOWHERE), where) for to in outside))


def _refused(to: str, mark: Mark, where: str) -> Mistake:
    return Mistake(
        what=f"`{KEY}` to `{to}` would overwrite your own files: local racks are this machine",
        where=where or f"`{KEY}`",
        line=mark.line,
        column=mark.column,
        hint=f"write a path relative to the workdir, such as `{posixpath.basename(to.rstrip('/'))}`",
    )
