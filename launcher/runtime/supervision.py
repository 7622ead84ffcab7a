"""The supervisor beside a running head, under its agent.

It is started, started again, and ended with the head.
"""

import threading
import time
from pathlib import Path
from typing import cast

from . import rpc
from .protocol import SupervisorQuestion, TablesReply
from .watched import WatchedProgram

PAUSE_S = 1.0
"""Seconds between two starts."""


class Supervision:
    """Keeps the supervisor of a head. `tick` is called by the agent's main thread."""

    def __init__(self, supervisor: WatchedProgram, head: WatchedProgram, scratch: Path) -> None:
        self._supervisor = supervisor
        self._head = head
        self._socket = scratch / "supervisor.sock"
        self._command: tuple[list[str], dict[str, str]] | None = None
        self._not_before = 0.0

    def begin(self, argv: list[str], env: dict[str, str]) -> None:
        """Keep a supervisor from now on."""
        self._command = (argv, env)

    def end(self) -> None:
        """Start it no more."""
        self._command = None

    def ask(self, question: SupervisorQuestion, timeout: float) -> TablesReply:
        """Return the supervisor's reply; not `ok` where it gives none."""
        try:
            return cast("TablesReply", rpc.ask(self._socket, question, timeout))
        except (OSError, ValueError) as error:
            return {"ok": False, "message": f"the supervisor does not answer: {error}"}

    def tick(self) -> None:
        """Start the supervisor beside a running head, and end it when the head has ended."""
        if self._command is None:
            return
        if self._supervisor.running:
            if not self._head.running:  # it would wait ten minutes for the old head, and the new one needs its own
                self._supervisor.kill()
            return
        if self._head.running and time.monotonic() >= self._not_before:
            self._not_before = time.monotonic() + PAUSE_S
            argv, env = self._command
            threading.Thread(target=self._supervisor.start, args=(argv, env), daemon=True).start()
