"""Starts programs in a container, by a short shell script of ours that an engine runs there.

The script takes its variables from a file, writes to the log itself, and leaves its number and the exit code of its
program in files. So no engine is in the way of what a program writes, or of how it ended: its client and its daemon may
be killed at any time.
"""

import contextlib
import math
import os
import re
import select
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import procs
from ..environment import MARK
from ..protocol_containers import ContainerSpec, ContainerState
from .engines import EngineError, engine, told, variables

ENTER_S = 60.0
LOOK_S = 0.05
"""Seconds between looks at a program that has just been started."""
WAIT_S = 3600.0
PID, CODE = "pid", "code"

# $1 is a folder for its files, $2 the log or empty, $3 the file of variables, $4 the folder to start in; the rest is
# the program. A handler, not an empty one: an ignored signal would be ignored by the program too. What comes after the
# program is done by the shell alone, which outlives its program at any signal but SIGKILL.
ENTRY = r"""own=$1 log=$2 vars=$3 at=$4
shift 4
trap : TERM INT HUP QUIT USR1 USR2
if [ -n "$log" ]; then exec </dev/null >>"$log" 2>&1; fi
. "$vars"
: >"$vars"
cd -- "$at" || { echo "nvlaunch: cannot enter $at in the container"; echo 126 >"$own/code"; exit 126; }
if [ ! -w "$HOME" ]; then export HOME="$NVLAUNCH_HOME_INSIDE"; fi
unset NVLAUNCH_HOME_INSIDE
if [ "$1" = bash ] && ! command -v bash >/dev/null; then shift; set -- sh "$@"; fi
echo $$ >"$own/pid"
"$@"
code=$?
echo "$code" >"$own/code"
exit "$code"
"""
ENTRY_FILE = "enter.sh"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
HOME = "home"
"""The folder in a run's folder that is the home of a user whom the image does not know."""


@dataclass(frozen=True)
class Place:
    """Where programs are started: the run's folder, the container, the node's variables."""

    folder: Path
    spec: ContainerSpec
    state: ContainerState
    base: Mapping[str, str]

    @property
    def workdir(self) -> str:
        """Return the folder that programs start in."""
        return self.spec["workdir"] or str(self.folder / "workdir")

    def command(
        self,
        own: Path,
        env: Mapping[str, str],
        argv: Sequence[str],
        *,
        log: str = "",
        umask: int,
        at: str = "",
        terminal: bool = False,
    ) -> list[str]:
        """Return the engine's command for a program; what the script needs is written to `own`, for this user alone.

        With a `log`, it is started and not waited for. `at` is the folder that it starts in, else the workdir.
        """
        entry = self.folder / ENTRY_FILE
        if not entry.exists():
            draft = entry.with_name(f".{ENTRY_FILE}.{os.getpid()}")
            draft.write_text(ENTRY)
            os.replace(draft, entry)
        home = self.folder / HOME
        home.mkdir(mode=0o700, exist_ok=True)
        file = own / "env"
        text = variables_text({**env, "NVLAUNCH_HOME_INSIDE": str(home)}, umask)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
            out.write(text)
        if self.state["uid"] != os.geteuid() and os.geteuid() == 0:
            for path in (own, file, *((Path(log),) if log and Path(log).exists() else ())):
                os.chown(path, self.state["uid"], self.state["gid"])
        inside = ["sh", str(entry), str(own), log, str(file), at or self.workdir, *argv]
        here = engine(self.spec["engine"], self.base)
        mark = {MARK: env[MARK]} if MARK in env else {}
        return here.enter(self.state["name"], inside, mark, log=log, terminal=terminal)

    @property
    def client_env(self) -> dict[str, str]:
        """Return the variables of the engine's client."""
        return variables(self.base)

    def start(
        self, own: Path, env: Mapping[str, str], argv: Sequence[str], *, log: str, umask: int, at: str = ""
    ) -> "InnerProgram":
        """Start a program; EngineError says why it has not started."""
        command = self.command(own, env, argv, log=log, umask=umask, at=at)
        told(command, {**self.client_env, MARK: env[MARK]}, ENTER_S)
        return InnerProgram(own)


class InnerProgram:
    """A program in a container, by the files that it leaves in a folder."""

    def __init__(self, own: Path) -> None:
        self._own = own
        self._handle: int | None = None
        self._begun = time.monotonic()

    def handle(self) -> int | None:
        """Return a descriptor that is readable once the program has ended; None where it has, or has not begun yet."""
        if self._handle is None and (pid := self._number(PID)) is not None:
            with contextlib.suppress(ProcessLookupError):
                self._handle = os.pidfd_open(pid)
            if self._handle is not None and not self._is_ours(pid):
                os.close(self._handle)
                self._handle = None
        return self._handle

    def _is_ours(self, pid: int) -> bool:
        """Whether a number is still that of our script: it is not another program's that came later."""
        try:
            return str(self._own).encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False

    def code(self) -> int | None:
        """Return the exit code, as a shell says it; None while the program runs.

        137, as of a program that was killed, where the script could not write it down.
        """
        code = self._number(CODE)
        if code is not None:
            return code
        if self._number(PID) is None:  # the client has ended well: the script has been started
            return None if time.monotonic() - self._begun < ENTER_S else 137
        handle = self.handle()
        if handle is not None and procs.runs(handle):
            return None
        code = self._number(CODE)
        return 137 if code is None else code

    def wait(self, seconds: float = math.inf) -> int:
        """Return its exit code once it has ended; EngineError where it runs for longer."""
        poll = select.poll()
        known = None
        deadline = time.monotonic() + seconds
        while (code := self.code()) is None:
            handle = self.handle()
            if handle is not None and handle != known:
                poll.register(handle, select.POLLIN)
                known = handle
            if (left := deadline - time.monotonic()) <= 0:
                raise EngineError(f"a program in the container did not end within {seconds:.0f} s", hung=True)
            poll.poll(min(LOOK_S if handle is None else WAIT_S, left) * 1000)
        return code

    def _number(self, name: str) -> int | None:
        try:
            text = (self._own / name).read_text()
        except OSError:
            return None
        return int(text) if text.endswith("\n") and text.strip().isdecimal() else None


def variables_text(env: Mapping[str, str], umask: int) -> bytes:
    """Return a shell script that sets variables, byte for byte, and the umask.

    Names that no shell takes are left out: one of them would end the script.
    """
    lines = [f"export {name}={shlex.quote(value)}" for name, value in env.items() if _NAME.fullmatch(name)]
    return "\n".join([f"umask {umask:04o}", *lines, ""]).encode(errors="surrogateescape")
