"""Git's rules for a folder, as git itself applies them."""

import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from launcher.errors import LaunchError

OWN_IGNORE = ".skyignore"
"""SkyPilot's file: where the folder has one, it is read instead of git's."""

_TAKEN = ("ls-files", "-z", "--cached", "--others", "--exclude-standard")
_IGNORED = ("ls-files", "-z", "--others", "--ignored", "--exclude-standard", "--directory")
# Variables that a git hook or alias passes on: they name another repository or index.
LIMIT_S = 300.0
"""Seconds for git to list a folder; a million files take about ten."""

# The folder may be somebody else's: what its configuration names must not run here, and git has no one switch for that.
# These commands start the monitor of files, hooks, and what fetches the missing objects of a partial clone.
_RUN_NOTHING = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "--no-pager", "--no-replace-objects")
_ALONE = {
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "LC_ALL": "C",
}
_HANDED_DOWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE")


class IgnoreRules:
    """The rules of one folder: which names are sent, and which are ignored."""

    def __init__(self, folder: Path, options: Sequence[str], excludes: Sequence[str] = ()) -> None:
        self._folder = folder
        self._options = tuple(options)
        self._excludes = tuple(excludes)

    def taken(self) -> Iterator[bytes]:
        """Return the names that are not ignored, relative to the folder.

        Some may be gone; repositories are folders.
        """
        argv = ("ls-files", "-z", "--others", *self._excludes) if self._excludes else _TAKEN
        return self._names(argv)

    def ignored(self) -> Iterator[bytes]:
        """Return the ignored files, and ignored folders with a slash at the end."""
        how = ("ls-files", "-z", "--others", "--ignored", "--directory", *self._excludes)
        return self._names(how if self._excludes else _IGNORED)

    def ignores(self, names: Sequence[bytes]) -> frozenset[bytes]:
        """Return which of these folders are ignored; git lists no empty ones."""
        if not names:
            return frozenset()
        if self._excludes:
            return frozenset()  # the index is empty: ignored folders were listed, empty or not
        ended = _git(self._folder, *self._options, "check-ignore", "-z", "--stdin", stdin=b"\0".join(names) + b"\0")
        return frozenset(name for name in ended.stdout.split(b"\0") if name)

    def _names(self, argv: Sequence[str]) -> Iterator[bytes]:
        ended = _git(self._folder, *self._options, *argv)
        if ended.returncode != 0:
            raise _refusal(self._folder, ended.stderr)
        return (name for name in ended.stdout.split(b"\0") if name)


def rules(folder: Path) -> IgnoreRules | None:
    """Return git's rules for a folder.

    None where it is no part of a git tree, or the tree ignores it as a whole. LaunchError where there are rules that
    cannot be read.
    """
    try:
        inside = _git(folder, "rev-parse", "--is-inside-work-tree", "--show-prefix")
    except FileNotFoundError:
        if any((above / ".git").exists() for above in (folder, *folder.parents)):
            raise _no_git(folder, "install git, or list what to leave out in `.skyignore`") from None
        return None
    if inside.returncode != 0 and b"not a git repository" in inside.stderr:
        return None
    if inside.returncode != 0:
        raise _refusal(folder, inside.stderr)
    within, _, prefix = inside.stdout.partition(b"\n")
    if within != b"true":
        return None
    if prefix.strip(b"\n") and _git(folder, "check-ignore", "-q", ".").returncode == 0:
        return None
    return IgnoreRules(folder, ())


class SkyIgnoreRules:
    """The rules of `.skyignore` files.

    `empty` is an empty repository that lends git's matching. Patterns are rsync's: one without a slash at its beginning
    matches at any depth.
    """

    def __init__(self, folder: Path, empty: Path) -> None:
        self._empty = empty
        self._excludes = empty / "excludes"
        lines = (folder / OWN_IGNORE).read_bytes().splitlines()
        self._excludes.write_bytes(b"".join(_deep(line) + b"\n" for line in lines))

    def of(self, folder: Path) -> IgnoreRules:
        """Return the rules for the folder, or for a repository inside it."""
        options = (f"--git-dir={self._empty}", f"--work-tree={folder}")
        return IgnoreRules(
            folder, options, (f"--exclude-from={self._excludes}", f"--exclude-per-directory={OWN_IGNORE}")
        )


def empty_repository(folder: Path) -> tempfile.TemporaryDirectory[str]:
    """Return an empty repository for `SkyIgnoreRules`.

    LaunchError without git.
    """
    made = tempfile.TemporaryDirectory(prefix="nvlaunch-")
    try:
        _git(folder, "init", "--quiet", "--bare", "--template=", made.name)
    except FileNotFoundError:
        made.cleanup()
        raise _no_git(folder, f"install git: it reads `{OWN_IGNORE}`") from None
    return made


def _deep(line: bytes) -> bytes:
    text = line.strip()
    return text if not text or text.startswith((b"/", b"#", b"!", b"**/")) else b"**/" + text


def _git(folder: Path, *argv: str, stdin: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    env = {name: value for name, value in os.environ.items() if name not in _HANDED_DOWN}
    command = ["git", *_RUN_NOTHING, "-C", str(folder), *argv]
    try:
        return subprocess.run(command, input=stdin, capture_output=True, env={**env, **_ALONE}, timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        hint = "list what to leave out in `.skyignore`: then its own rules are not read"
        raise LaunchError(f"git did not list `{folder}` within {LIMIT_S:.0f} s", hints=(hint,)) from None


def _no_git(folder: Path, hint: str) -> LaunchError:
    return LaunchError(f"git is needed for the ignore rules of `{folder}`", hints=(hint,))


def _refusal(folder: Path, stderr: bytes) -> LaunchError:
    lines = [line for line in stderr.decode(errors="replace").splitlines() if line.strip()]
    message = (lines[0] if lines else "git says nothing").removeprefix("fatal: ")
    return LaunchError(f"git cannot apply the ignore rules of `{folder}`: {message}", hints=tuple(lines[1:2]))
