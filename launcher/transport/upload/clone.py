"""A workdir from a git repository, cloned on this machine.

The repository may be hostile. It is fetched into a repository of our own, which has no hooks and no configuration but
ours and the user's; its files are written with neither, so that no filter runs; submodules and objects that others
offer are not fetched. Time, bytes and files are bounded.
"""

import contextlib
import os
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import IO

from launcher.core.model.git_workdir import GitWorkdir
from launcher.errors import LaunchError
from launcher.transport.bounded import OutputEnd
from launcher.transport.private import make_private

LIMIT_S = 300.0
"""Seconds for a clone, all steps together."""

MAX_BYTES = 10_000_000_000
"""The most bytes of the files of a commit, and of what is fetched for it."""

MAX_FILES = 1_000_000
SAID = 1 << 16
"""Bytes that are kept of what git says, the last ones: a server may send messages without end."""
KEPT, KEPT_S = 10, 7 * 86_400.0
"""How many checkouts are kept in any case, and for how long others are (s): a run has a copy of its own."""

_OURS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.askPass=", "-c", "gc.auto=0"),
    *("-c", "maintenance.auto=false", "-c", "submodule.recurse=false", "--no-pager", "--no-replace-objects"),
)
_ALWAYS = {
    "GIT_ALLOW_PROTOCOL": "https:http:ssh:git:file",  # not `ext`, which runs a command
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_TERMINAL_PROMPT": "0",
    "SSH_ASKPASS_REQUIRE": "never",
    "LC_ALL": "C",
}
# The user's own configuration may name filters, and attributes of the repository would start them.
_NO_CONFIG = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_LFS_SKIP_SMUDGE": "1"}
_HANDED_DOWN = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR", "GIT_NAMESPACE",
                "GIT_ASKPASS", "SSH_ASKPASS", "GIT_TEMPLATE_DIR", "GIT_EXTERNAL_DIFF", "GIT_OBJECT_DIRECTORY",
                "GIT_ALTERNATE_OBJECT_DIRECTORIES")  # fmt: skip
_COMMIT = re.compile(r"[0-9a-f]{40}([0-9a-f]{24})?")
_SHORT = re.compile(r"[0-9a-f]{7,64}")


def clone(workdir: GitWorkdir, home: Path, *, limit: float = LIMIT_S) -> GitWorkdir:
    """Return a git workdir with its commit, and a folder below `home` that has the commit's files.

    A commit that is there already is not written again. `limit` is the time for all of it (s). LaunchError where it
    cannot be fetched, or is too large.
    """
    root = home / "checkouts"
    make_private(root)
    with tempfile.TemporaryDirectory(prefix=".clone-", dir=root, ignore_cleanup_errors=True) as partial:
        git = _Git(Path(partial), workdir, limit)
        commit = git.fetch()
        folder = root / f"{commit}-{sha256(workdir.url.encode()).hexdigest()[:8]}"
        if not folder.is_dir():
            git.check_size(commit)
            made = git.write(commit)
            with contextlib.suppress(OSError):  # another command was faster
                made.rename(folder)
    if not folder.is_dir():
        raise LaunchError(f"cannot write the files of `{workdir.url}` to `{folder}`")
    os.utime(folder)
    _prune(root)
    return replace(workdir, commit=commit, checkout=str(folder))


class _Git:
    """Git on a repository of our own, for one clone within `limit` seconds."""

    def __init__(self, folder: Path, workdir: GitWorkdir, limit: float) -> None:
        self._folder = folder
        self._workdir = workdir
        self._limit = limit
        self._deadline = time.monotonic() + limit

    def fetch(self) -> str:
        """Fetch what the workdir names, and return its commit."""
        self._run("init", "--quiet", "--bare", "--template=", str(self._folder / "repository"))
        url, ref = self._workdir.url, self._workdir.ref or "HEAD"
        options = ("fetch", "--quiet", "--no-recurse-submodules", "--no-tags")
        try:
            self._run(*options, "--depth=1", "--", url, ref)
            wanted = "FETCH_HEAD"
        except _GitError as error:
            if not _SHORT.fullmatch(ref):
                raise self._refusal(error) from None
            wanted = ref  # a commit that the server does not give by itself: it is in a branch or a tag
            try:
                self._run(*options, "--", url, "+refs/heads/*:refs/heads/*", "+refs/tags/*:refs/tags/*")
            except _GitError as again:
                raise self._refusal(again) from None
        try:
            commit = self._run("rev-parse", "--verify", "--quiet", f"{wanted}^{{commit}}").decode().strip()
        except _GitError:
            raise self._refusal(_GitError(f"`{ref}` is no commit there")) from None
        if not _COMMIT.fullmatch(commit):
            raise self._refusal(_GitError(f"git names the commit `{commit[:80]}`"))
        return commit

    def check_size(self, commit: str) -> None:
        """Refuse a commit with too many files or bytes, before any of them is written."""
        files = size = 0
        with self._started("ls-tree", "-r", "-l", "-z", commit) as process:
            assert process.stdout is not None
            for entry in _entries(process.stdout):
                files += 1
                digits = entry.split(b"\t", 1)[0].split()[-1]
                size += int(digits) if digits.isdigit() else 0
                if time.monotonic() > self._deadline:
                    raise self._over()
                if files > MAX_FILES or size > MAX_BYTES:
                    what = f"more than {MAX_FILES:,} files, or {MAX_BYTES // 10**9} GB"
                    raise self._refusal(_GitError(f"commit {commit[:12]} has {what}"))

    def write(self, commit: str) -> Path:
        """Return a folder with the files of a commit, and nothing else."""
        made = self._folder / "files"
        made.mkdir(mode=0o700)
        try:
            self._run(f"--work-tree={made}", "checkout", "--quiet", "--force", "--detach", commit, more=_NO_CONFIG)
        except _GitError as error:
            raise self._refusal(error) from None
        return made

    def _run(self, *argv: str, more: Mapping[str, str] = {}) -> bytes:
        """Return what git prints; _GitError where it fails, LaunchError where the time is over."""
        with self._started(*argv, more=more) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            out, err = OutputEnd(process.stdout, SAID), OutputEnd(process.stderr, SAID)
            try:
                process.wait(timeout=max(0.1, self._deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                raise self._over() from None
            told, said = out.text(), err.text()
        if process.returncode:
            raise _GitError(_last_line(said.decode(errors="replace")))
        return told

    @contextmanager
    def _started(self, *argv: str, more: Mapping[str, str] = {}) -> Iterator["subprocess.Popen[bytes]"]:
        """Start git without a terminal; at the end nothing of it runs."""
        env = {name: value for name, value in os.environ.items() if name not in _HANDED_DOWN} | _ALWAYS | dict(more)
        command = ["git", *_OURS, f"--git-dir={self._folder / 'repository'}", *argv]
        try:
            process = subprocess.Popen(
                command,
                env=env,
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE if argv[0] != "ls-tree" else subprocess.DEVNULL,
                start_new_session=True,
            )
        except FileNotFoundError:
            message = f"git is needed to fetch the workdir `{self._workdir.url}`"
            raise LaunchError(message, hints=("install git, or name a local folder as `workdir`",)) from None
        with contextlib.suppress(OSError, ValueError):  # it has ended already, or has a lower limit
            resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (MAX_BYTES, MAX_BYTES))
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()

    def _over(self) -> LaunchError:
        message = f"git did not fetch `{self._workdir.url}` in time (limit {self._limit:.0f} s)"
        return LaunchError(message, hints=("clone it yourself, and name the folder as `workdir`",))

    def _refusal(self, error: "_GitError") -> LaunchError:
        """Return the error for people; git's own words say what failed."""
        url, ref = self._workdir.url, self._workdir.ref
        hints = [f"try it: `git ls-remote {url}{f' {ref}' if ref else ''}`"]
        if re.search(r"could not read (Username|Password)|Authentication failed|Permission denied", error.message):
            hints.append("git asks for nothing here: it needs a credential helper, or a key in ssh-agent")
        return LaunchError(f"cannot fetch the workdir `{url}`: {error.message}", hints=tuple(hints))


class _GitError(Exception):
    """Git failed; `message` is what it said last."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def _last_line(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    named = [line for line in lines if line.startswith(("fatal:", "error:", "remote: error"))] or lines
    text = named[0] if named else "git says nothing"
    return "".join(c if c.isprintable() else " " for c in re.sub(r"^(fatal|error): ", "", text))[:300]


def _entries(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the NUL-terminated entries of a stream; one at a time is in memory."""
    rest = b""
    while part := stream.read(1 << 16):
        *whole, rest = (rest + part).split(b"\0")
        yield from whole


def _prune(root: Path) -> None:
    """Remove old checkouts, and clones that a killed command left."""
    found = []
    for path in root.iterdir():
        with contextlib.suppress(FileNotFoundError):
            found.append((path.stat().st_mtime, path))
    found.sort(reverse=True)
    for at, path in found[KEPT:]:
        if time.time() - at > KEPT_S:
            shutil.rmtree(path, ignore_errors=True)
