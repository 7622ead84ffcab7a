"""The script of a rank, which is followed to its end: on the node itself, or in a container."""

import contextlib
import os
from pathlib import Path
from typing import ClassVar, Protocol

from . import procs
from .containers.enter import InnerProgram, Place
from .protocol import EnvironmentReply
from .protocol_containers import ContainerSpec


class RankScript(Protocol):
    """What the parent of a rank needs of its script."""

    @property
    def inside(self) -> bool:
        """Whether it runs in a container: then no signal says that it has ended."""

    def handle(self) -> int | None:
        """Return a descriptor that tells of its end; None where a signal does."""

    def code(self) -> int | None:
        """Return its exit code as a shell says it (128 + n for a signal n); None while it runs."""

    def has_left(self) -> bool:
        """Whether a process lives that it started."""


class HostScript:
    """A script that is a child of this process, which is a subreaper: orphans are its children too."""

    inside: ClassVar[bool] = False

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def handle(self) -> int | None:
        """Return None: SIGCHLD tells of its end."""
        return None

    def code(self) -> int | None:
        """Reap what has ended, adopted orphans too; return the script's exit code once it is among them."""
        found = reap(self._pid)
        self._code = found if self._code is None else self._code
        return self._code

    def has_left(self) -> bool:
        """Whether a child is left."""
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True


class InnerScript:
    """A script in a container; `scope` covers what it starts."""

    inside: ClassVar[bool] = True

    def __init__(self, program: InnerProgram, scope: procs.Scope) -> None:
        self._program = program
        self._scope = scope
        self._code: int | None = None

    def handle(self) -> int | None:
        """Return a descriptor of its process, once it has begun."""
        return self._program.handle()

    def code(self) -> int | None:
        """Return its exit code, as it wrote it down; 137 without."""
        reap(0)
        self._code = self._program.code() if self._code is None else self._code
        return self._code

    def has_left(self) -> bool:
        """Whether a process of it is left in the container."""
        return bool(procs.scan(self._scope))


def reap(script: int) -> int | None:
    """Reap what has ended, adopted orphans too.

    Return the exit code where the script was among them.
    """
    code = None
    with contextlib.suppress(ChildProcessError):  # none is left
        while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            if found.si_pid == script:
                code = found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
    return code


def start_inside(
    folder: Path,
    spec: ContainerSpec,
    given: EnvironmentReply,
    own: Path,
    env: dict[str, str],
    script: Path,
    log: Path,
) -> InnerProgram:
    """Start a script in the container of its group, which is started or made again where it has ended.

    `own` is a folder in memory for the files of this start. EngineError says why it cannot start.
    """
    from . import setups

    state, _ = setups.ready(folder, spec, log)
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    os.close(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600))
    place = Place(folder, spec, state, given["base"])
    return place.start(own, env, ["bash", str(script)], log=str(log), umask=given.get("umask", 0o022))
