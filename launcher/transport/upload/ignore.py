"""The files of a user's folder that go to nodes.

Those that git would take, and the folders that git does not store.
"""

import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from launcher.errors import LaunchError
from launcher.transport.upload import git

GIT = b".git"

RulesOf = Callable[[bytes], git.IgnoreRules | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """Names relative to a folder, as bytes.

    `files` are files and links, `empty` folders without anything. `ignored` counts files and whole folders; `special`
    are sockets, pipes and devices, which cannot be copied.
    """

    files: tuple[bytes, ...]
    empty: tuple[bytes, ...]
    ignored: int = 0
    special: tuple[bytes, ...] = ()


@dataclass(slots=True)
class _Found:
    files: list[bytes] = field(default_factory=list)
    empty: list[bytes] = field(default_factory=list)
    special: list[bytes] = field(default_factory=list)
    ignored: int = 0


def listing(folder: Path) -> Listing:
    """Return the files of a folder that are sent.

    In a git tree: what git does not ignore, tracked or not, submodules too. `.skyignore` in the folder takes the place
    of git's rules; elsewhere everything but `.git` is sent. LaunchError where the folder is gone or its rules cannot be
    read.
    """
    if not folder.is_dir():
        raise LaunchError(f"workdir `{folder}` does not exist")
    found = _Found()
    if (folder / git.OWN_IGNORE).is_file():
        with git.empty_repository(folder) as empty:
            own = git.SkyIgnoreRules(folder, Path(empty))
            _gather(folder, b"", lambda name: own.of(_at(folder, name)), found)
    else:
        _gather(folder, b"", lambda name: git.rules(_at(folder, name)), found)
    return Listing(
        files=tuple(sorted(set(found.files))),
        empty=tuple(sorted(set(found.empty))),
        ignored=found.ignored,
        special=tuple(sorted(found.special)),
    )


def everything(folder: Path) -> Listing:
    """Return all files of a folder but `.git`, ignored or not."""
    found = _Found()
    _walk(folder, b"", _is_git, found)
    return Listing(files=tuple(sorted(found.files)), empty=tuple(sorted(found.empty)), special=tuple(found.special))


def _at(folder: Path, name: bytes) -> Path:
    return folder / os.fsdecode(name)


def _gather(root: Path, prefix: bytes, rules_of: RulesOf, found: _Found) -> None:
    """Add the files of one repository, or of a folder without one.

    Those of the repositories inside too.
    """
    rules = rules_of(prefix)
    if rules is None:
        _walk(_at(root, prefix), prefix, _is_git, found)
        return
    nested = _take(root, prefix, rules, found)
    ignored = frozenset(rules.ignored())
    found.ignored += sum(1 for name in ignored if not _below(name, ignored))
    closed = {_join(prefix, name.rstrip(b"/")) for name in ignored if name.endswith(b"/")} | nested
    hollow = _Found(special=found.special)
    _walk(_at(root, prefix), prefix, lambda name: name in closed or _is_git(name), hollow)
    inner = {name[len(prefix) :].lstrip(b"/"): name for name in hollow.empty}
    found.empty += [inner[name] for name in inner.keys() - rules.ignores(tuple(inner))]
    for path in sorted(nested):
        # A submodule that is not checked out, or whose `.git` is gone, is a folder like any other.
        whole = not _mode(root, path + b"/" + GIT)
        _gather(root, path, (lambda _: None) if whole else rules_of, found)


def _take(root: Path, prefix: bytes, rules: git.IgnoreRules, found: _Found) -> set[bytes]:
    """Add the files that a repository's rules take.

    Return the repositories inside it.
    """
    nested: set[bytes] = set()
    real: dict[bytes, bool] = {b"": True}
    for name in rules.taken():
        path = _join(prefix, name.rstrip(b"/"))
        mode = _mode(root, path) if _is_real(root, path.rpartition(b"/")[0], real) else 0
        if stat.S_ISDIR(mode):
            nested.add(path)
        elif stat.S_ISREG(mode) or stat.S_ISLNK(mode):
            found.files.append(path)
    return nested


def _is_git(name: bytes) -> bool:
    return name.rsplit(b"/", 1)[-1] == GIT


def _join(prefix: bytes, name: bytes) -> bytes:
    return prefix + b"/" + name if prefix and name else prefix or name


def _below(name: bytes, folders: frozenset[bytes]) -> bool:
    """Whether one of the folders listed is above a name.

    Git lists some files beside the folder they are in.
    """
    parts = name.rstrip(b"/").split(b"/")[:-1]
    return any(b"/".join(parts[: count + 1]) + b"/" in folders for count in range(len(parts)))


def _mode(root: Path, name: bytes) -> int:
    """Return the kind and mode of a file.

    0 for one that is gone: git's index may still have it.
    """
    try:
        return _at(root, name).lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return 0


def _is_real(root: Path, folder: bytes, known: dict[bytes, bool]) -> bool:
    """Whether no part of a path is a link.

    The index may have files of a folder that a link replaced.
    """
    if folder not in known:
        above = folder.rpartition(b"/")[0]
        known[folder] = _is_real(root, above, known) and stat.S_ISDIR(_mode(root, folder))
    return known[folder]


def _walk(folder: Path, prefix: bytes, closed: Callable[[bytes], bool], found: _Found) -> None:
    """Add the content of a folder by kind; closed folders are skipped."""
    waiting = [(os.fsencode(folder), prefix)]
    while waiting:
        path, name = waiting.pop()
        count = 0
        for entry in _entries(path):
            count += 1
            inner = _join(name, entry.name)
            if closed(inner):
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((entry.path, inner))
            elif entry.is_symlink() or entry.is_file(follow_symlinks=False):
                found.files.append(inner)
            else:
                found.special.append(inner)
        if not count and name:
            found.empty.append(name)


def _entries(path: bytes) -> Iterator["os.DirEntry[bytes]"]:
    try:
        with os.scandir(path) as entries:
            yield from entries
    except OSError as error:
        message = f"cannot read `{os.fsdecode(path)}`: {(error.strerror or str(error)).lower()}"
        hint = "let this user read it, or list it in `.gitignore`"
        raise LaunchError(message, hints=(hint,)) from error
