"""Local files and folders that a task names."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark

# sky/task.py, _fill_in_env_vars: `$NAME` and `${NAME}`.
_VARIABLE = re.compile(r"\$\{?\b([a-zA-Z_][a-zA-Z0-9_]*)\b\}?")


@dataclass(frozen=True, slots=True, kw_only=True)
class PathVariables:
    """The variables that paths may use.

    Those in `later` get their value when the task is started; `secrets` must not be used, since paths are shown.
    """

    envs: Mapping[str, str]
    later: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()

    def expand(self, text: str, mark: Mark, out: Diagnostics) -> str | None:
        """Return the text with its variables expanded.

        None if one has no value yet, if one is missing, which is reported, or if nothing is left.
        """
        for name in _VARIABLE.findall(text):
            if name in self.secrets:
                out.mistake(mark, f"secret `{name}` is used in a path, which is shown", "write the path without it")
            elif name in self.envs:
                continue
            elif name not in self.later:
                out.mistake(mark, f"variable `{name}` is not in `envs`", f"add `{name}` to `envs`")
            return None
        return _VARIABLE.sub(lambda match: self.envs[match[1]], text) or None


def find_local(written: str, beside: Path, mark: Mark, out: Diagnostics) -> Path | None:
    """Return the absolute path of something that exists; None if it does not.

    A relative path starts in the current folder, as with SkyPilot, or else in `beside`, the folder of the task file.
    Where these two folders differ, a warning says which one it was.
    """
    try:
        path = Path(written).expanduser()
        if path.is_absolute():
            return path if path.exists() else None
        here, there = path.absolute(), (beside / path).absolute()
        apart = beside.resolve() != Path.cwd()
        if here.exists():
            if apart:
                other = there.exists() and not there.samefile(here)
                hint = f"for the one beside the task file, `cd {beside}` first" if other else None
                out.warn(mark, f"`{written}` is taken from the current folder, `{Path.cwd()}`", hint)
            return here
        if apart and there.exists():
            out.warn(mark, f"`{written}` is taken from the folder of the task file: the current folder has none")
            return there
    except (OSError, RuntimeError, ValueError):  # the home of an unknown user, or an impossible file name
        return None
    return None


def not_found(written: str, beside: Path, mark: Mark, out: Diagnostics, *, what: str | None = None) -> None:
    """Report that nothing is there; `what` replaces how it is named."""
    folders = f"`{Path.cwd()}`"
    if beside.resolve() != Path.cwd():
        folders += f", or beside the task file, in `{beside.resolve()}`"
    out.mistake(
        mark, f"{what or f'`{written}`'} does not exist", f"relative paths start in the current folder, {folders}"
    )
