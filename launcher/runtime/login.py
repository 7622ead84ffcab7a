"""The variables and the umask of a login.

sshd itself sets little more than PATH, the rest comes from the shell's start-up files. What these print is never read:
the answer goes into memory that only we have, past every stream of theirs.
"""

import os
import pwd
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LIMIT_S = 10.0
"""Seconds for the start-up files; some wait for a licence server or a file system that hangs."""

MOST = 8 << 20
"""Bytes that are read of an answer."""

NOEXEC = 8
"""MFD_NOEXEC_SEAL of linux/memfd.h: with `vm.memfd_noexec=2` no other memory is given."""

_BY_COMMAND = ("sh", "bash", "zsh", "ksh", "mksh", "dash", "ash", "fish")
_FILES = {
    "bash": (".bash_profile", ".bash_login", ".profile"),
    "zsh": (".zshenv", ".zprofile", ".zlogin"),
    "fish": (".config/fish/config.fish",),
    "tcsh": (".tcshrc", ".cshrc", ".login"),
    "csh": (".cshrc", ".login"),
}


@dataclass(frozen=True)
class Login:
    """What programs of the user start with; `trouble` says why it is not a login's, else it is empty."""

    environ: dict[str, str]
    umask: int
    trouble: str = ""


class MemoryFile:
    """Memory that a program fills by its path, whatever it does to its streams."""

    def __init__(self) -> None:
        try:
            self._handle = os.memfd_create("nvlaunch", os.MFD_CLOEXEC | NOEXEC)
        except OSError:  # a kernel before 6.3 does not know the flag
            self._handle = os.memfd_create("nvlaunch")

    @property
    def path(self) -> str:
        """Return its path, which is good as long as this process lives."""
        return f"/proc/{os.getpid()}/fd/{self._handle}"

    def read(self) -> bytes:
        """Return what was written."""
        return os.pread(self._handle, MOST, 0)

    def close(self) -> None:
        """Let go of the memory."""
        os.close(self._handle)

    def variables(self) -> dict[str, str]:
        """Return the variables in it, as `env -0` prints them."""
        return dict(line.split("=", 1) for line in os.fsdecode(self.read()).split("\0") if "=" in line)


def own_umask() -> int:
    """Return the umask of this process."""
    current = os.umask(0o077)
    os.umask(current)
    return current


def read(given: Mapping[str, str]) -> Login:
    """Return what a login shell of this user starts programs with.

    The given variables where the shell does not print them in time.
    """
    entry, umask = pwd.getpwuid(os.getuid()), own_umask()
    shell = entry.pw_shell or "/bin/sh"
    name = os.path.basename(shell)
    answer = MemoryFile()
    try:
        ask = f'exec /bin/sh -c \'(umask | sed s/^/umask=/ | tr "\\n" "\\000"; exec env -0) >{answer.path}\''
        # csh takes no command beside `-l`: it is a login shell by its name, and reads the command from stdin.
        argv, stdin = ([shell, "-lc", ask], b"") if name in _BY_COMMAND else ([f"-{name}"], ask.encode() + b"\n")
        trouble = run(argv, given, executable=shell, stdin=stdin, umask=umask)
        found = answer.variables()
    finally:
        answer.close()
    if "PATH" in found:
        return Login(found, int(found.pop("umask", f"{umask:o}"), 8))
    return Login(dict(given), umask, in_words(trouble or "sets no PATH", _suspect(Path(entry.pw_dir), name)))


def in_words(what: str, file: str) -> str:
    """Return a sentence about a login that failed, which names the file that is to blame."""
    return f"the login of `{pwd.getpwuid(os.getuid()).pw_name}` {what}: {file}?"


def run(argv: Sequence[str], env: Mapping[str, str], *, executable: str, stdin: bytes = b"", umask: int = -1) -> str:
    """Run a shell that reads start-up files, without a terminal; return how it failed, if it did.

    Whatever it started is ended with it where it does not end in time.
    """
    home = env.get("HOME", "/")
    try:
        with subprocess.Popen(
            argv,
            executable=executable,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=home if os.path.isdir(home) else "/",
            umask=umask,
            start_new_session=True,
        ) as process:
            try:
                process.communicate(stdin, timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return f"does not end within {LIMIT_S:.0f} s"
    except OSError as error:
        return f"cannot be started: {(error.strerror or str(error)).lower()}"
    return f"ended with {process.returncode}" if process.returncode else "ended before its last line"


def _suspect(home: Path, shell: str) -> str:
    """Return the first start-up file of a shell that the user has."""
    names = _FILES.get(shell, (".profile",))
    return next((f"`~/{name}`" for name in names if (home / name).exists()), f"`/etc` or `{shell}`")
