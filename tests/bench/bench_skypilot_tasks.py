"""How many public SkyPilot tasks `nvlaunch validate` accepts.

    python tests/bench/bench_skypilot_tasks.py FOLDER LIST

FOLDER is a checkout of SkyPilot's repository, LIST a file with one path a line, relative to FOLDER; `#` begins a
comment. Each task is read as SkyPilot's users do it: in FOLDER, or in its own folder. Variables and secrets that a file
leaves to the command line get a value, and local files that the repository lacks are made up in a copy of FOLDER.
"""

import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from launcher.config.task.envs import Overrides
from launcher.config.task.read import parse_tasks
from launcher.errors import SpecError

MADE_UP = "made-up"
_ELSEWHERE = re.compile(r"`/.*` does not exist")
"""What is said of a file outside of home and FOLDER: none is made up there, so that it does not count."""

_VARIABLE = re.compile(r"\$\{?([a-zA-Z_][a-zA-Z0-9_]*)\}?")


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """What `validate` says of one file: the mistakes, none for one that is accepted, and the warnings."""

    path: str
    mistakes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def documents(text: str) -> list[dict[str, Any]]:
    """Return the documents of a task file that are mappings."""
    return [one for one in yaml.safe_load_all(text) if isinstance(one, dict)]


def given(tasks: Sequence[Mapping[str, Any]]) -> Overrides:
    """Return a value for each variable and secret that has none."""
    secrets = {name for task in tasks for name, value in (task.get("secrets") or {}).items() if value is None}
    envs = {name for task in tasks for name, value in (task.get("envs") or {}).items() if value is None}
    return Overrides(envs=dict.fromkeys(envs - secrets, MADE_UP), secrets=frozenset(secrets), values_later=True)


def local_paths(task: Mapping[str, Any], envs: Mapping[str, str]) -> Iterator[tuple[str, bool]]:
    """Return the local paths that a task copies, and whether each is a folder for certain."""
    named = {**{name: str(value) for name, value in (task.get("envs") or {}).items()}, **envs}

    def expanded(text: str) -> str:
        return _VARIABLE.sub(lambda match: named.get(match[1], match[0]), text)

    if isinstance(task.get("workdir"), str):
        yield expanded(task["workdir"]), True
    for source in (task.get("file_mounts") or {}).values():
        stored = source.get("source") if isinstance(source, dict) else source
        for path in stored if isinstance(stored, list) else [stored]:
            if isinstance(path, str) and "://" not in path:
                yield expanded(path), isinstance(source, dict) and not isinstance(stored, list)


def make_up(path: str, *, folder: bool) -> None:
    """Make a local file or folder that is missing, below the current folder or the home made for this file only."""
    where = Path(path).expanduser()
    if where.exists() or not where.absolute().is_relative_to(Path.cwd().parent):
        return
    if folder or not where.suffix:
        where.mkdir(parents=True)
        return
    where.parent.mkdir(parents=True, exist_ok=True)
    where.touch()


@contextmanager
def standing_in(folder: Path, home: Path) -> Iterator[None]:
    """Use a folder as the current one, and another as home, during this block."""
    before, at_home = Path.cwd(), os.environ.get("HOME")
    os.chdir(folder)
    os.environ["HOME"] = str(home)
    try:
        yield
    finally:
        os.chdir(before)
        if at_home is not None:
            os.environ["HOME"] = at_home


def judge(copy: Path, home: Path, name: str) -> Verdict:
    """Return what `validate` says of one file of a copy, with everything that it lacks made up."""
    text = (copy / name).read_text()
    tasks = documents(text)
    overrides = given(tasks)
    with standing_in(copy, home):
        for task in tasks:
            for path, folder in local_paths(task, overrides.envs):
                make_up(path, folder=folder)
        try:
            parsed = parse_tasks(text, Path(name), overrides=overrides)
        except SpecError as error:
            mistakes = tuple(one.what for one in error.mistakes if not _ELSEWHERE.fullmatch(one.what))
            return Verdict(path=name, mistakes=mistakes)
    return Verdict(path=name, warnings=tuple(warning.what for one in parsed for warning in one.warnings))


def names_of(listing: Path) -> list[str]:
    """Return the paths of a list."""
    lines = (line.partition("#")[0].strip() for line in listing.read_text().splitlines())
    return [line for line in lines if line]


def kind(mistake: str) -> str:
    """Return a mistake without names and paths, to count those of one kind."""
    return re.sub(r"^`([^`]*[.\[])?([\w-]+)\]?`", r"`\2`", re.sub(r"\b(/|~/)[^`\s]+", "PATH", mistake))


def main(argv: list[str]) -> int:
    """Print the count, and each refusal with its reasons."""
    if len(argv) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    folder, names = Path(argv[0]).resolve(), names_of(Path(argv[1]))
    with tempfile.TemporaryDirectory(prefix="skypilot-tasks-") as scratch:
        copy, home = Path(scratch) / "repository", Path(scratch) / "home"
        home.mkdir()
        for name in dict.fromkeys(part for one in names for part in (one.split("/")[0],)):
            source = folder / name
            if source.is_dir():
                shutil.copytree(source, copy / name, symlinks=True)
            else:
                copy.mkdir(exist_ok=True)
                shutil.copy(source, copy / name)
        verdicts = [judge(copy, home, name) for name in names]
    refused = [one for one in verdicts if one.mistakes]
    for one in refused:
        print(f"{one.path}")
        for mistake in one.mistakes:
            print(f"  {mistake}")
    print(f"{len(verdicts)} tasks: {len(verdicts) - len(refused)} accepted, {len(refused)} refused")
    for what, count in Counter(what for one in refused for what in {kind(one) for one in one.mistakes}).most_common(20):
        print(f"{count:4} {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
