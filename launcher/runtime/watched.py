"""A program that the agent watches: whether it runs, and how it ended."""

import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from . import files, logs, stage
from .children import Children
from .protocol import ProgramStatus


class WatchedProgram:
    """One program at a time, with its log.

    With a `done` file its success outlives the agent: see `resume`. One that is `staged` notes what it is doing in the
    folder (`stage.py`).
    """

    def __init__(
        self, children: Children, folder: Path, log: Path, done: Path | None = None, *, staged: bool = False
    ) -> None:
        self._children = children
        self._folder = folder
        self._log = log
        self._done = done
        self._staged = staged
        self._pid: int | None = None
        self._generation = 0
        self._code: int | None = None
        self._reported: int | None = None

    @property
    def running(self) -> bool:
        """Whether the program runs."""
        return self._pid is not None

    @property
    def generation(self) -> int:
        """Return the generation of its last start."""
        return self._generation

    def resume(self) -> bool:
        """Whether it needs no start: it runs, has ended, or has succeeded under an earlier agent.

        Until this is asked, a new agent counts it as absent. An earlier failure does not count.
        """
        if self._pid is None and self._code is None and self._done:
            kept = files.read(self._done)
            self._code = 0 if kept and kept["code"] == 0 else None
        return self._pid is not None or self._code is not None

    def forget(self) -> None:
        """Count it as absent until `resume` is asked, unless it runs."""
        if self._pid is None:
            self._code = None

    def start(
        self,
        argv: Sequence[str],
        env: Mapping[str, str],
        *,
        folder: Path | None = None,
        generation: int = 0,
        message: str = "",
    ) -> None:
        """Start the program; OSError where it cannot be started.

        `message` is its stage at first.
        """
        self._code, self._reported, self._generation = None, None, generation
        self.set_stage(message)
        if self._done:
            self._done.unlink(missing_ok=True)

        def ended(code: int) -> None:
            if self._done:
                try:
                    files.write(self._done, {"code": code})
                except OSError:  # a full disk must not end the agent; it remembers, the next one runs it again
                    logging.exception("cannot write `%s`", self._done)
            self._pid, self._code = None, code if self._reported is None else self._reported

        self._pid = -1  # it may end before `spawn` has answered
        try:
            pid = self._children.spawn(argv, env, folder=folder or self._folder, log=self._log, ended=ended)
        except OSError:
            self._pid = None
            raise
        if self._pid == -1:
            self._pid = pid
        self.begun(pid)

    def begun(self, pid: int) -> None:
        """Take note that the program has been started, as the process `pid`; it may have ended since."""

    def set_stage(self, message: str) -> None:
        """Set the message about what the program is doing, running or not.

        An empty one removes it.
        """
        if self._staged:
            stage.write(self._folder, message)

    def kill(self, code: int | None = None) -> None:
        """Kill the program, if it runs; report `code` in place of how that ends it."""
        self._reported = code
        if self._pid is not None and self._pid > 0:
            os.kill(self._pid, signal.SIGKILL)  # a child of ours that is not reaped: the number is still its own

    def skip(self) -> None:
        """Count it as done: there is nothing to run."""
        self.set_stage("")
        if self._done:
            files.write(self._done, {"code": 0})
        self._code = 0

    def status(self) -> ProgramStatus:
        """Return phase, generation and stage, and of a failed program the end of its log."""
        code, running = self._code, self.running
        now = stage.read(self._folder) if self._staged else stage.Stage()
        if running or code is None:
            phase: ProgramStatus = {
                "phase": "running" if running else "absent",
                "generation": self._generation,
                "message": now.message,
            }
            return {**phase, "copied": now.copied, "to_copy": now.total} if now.total else phase
        # A raylet has no good end: whatever its code, it is gone.
        failed = code != 0 or self._done is None
        return {
            "phase": "failed" if failed else "done",
            "exit_code": code,
            "generation": self._generation,
            "tail": logs.tail(self._log) if failed else [],
            "message": now.message,
        }
