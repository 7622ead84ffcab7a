"""`on_event`: runs the user's command for each event of a run."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from typing_extensions import Self

from launcher.core.model.run import Run, RunState
from launcher.core.model.secret_words import secret_values, without_own_words, words_of
from launcher.errors import StoreError
from launcher.store.journal import Event, EventKind
from launcher.store.run_files import read_secrets, secrets_file
from launcher.store.store import Store
from launcher.transport.clock import SystemClock

DEADLINE_S = 30.0
"""How long the command may take for one event (s); then its process group is killed."""
LAST_S = 60.0
"""How long an ended run waits for its hook to handle the last event (s)."""
POLL_S = 0.5
"""How often the journal is read (s)."""

SUBJECT = "on_event"
"""The subject of warnings about the hook itself, for which it is not run."""

_REPORTED = (
    EventKind.QUEUED,
    EventKind.LAUNCHED,
    EventKind.WARNING,
    EventKind.REQUESTED,
    EventKind.NODE_FAILED,
    EventKind.READMITTED,
    EventKind.ENDED,
)

_FINAL = [state.value for state in RunState if state.final]


class Hook:
    """Runs the command of a run once for each event, in order.

    The position is stored with the run, so that the next controller continues there; after a crash the last event may
    be reported twice. A failing store is retried, after `end` only where the hook is `patient`: for a run that goes on,
    the next controller reports the rest.
    """

    def __init__(self, store: Store, run: Run) -> None:
        self._store = store
        self._run = run
        self._state = ""
        self._folder = store.home
        self._seen: int | None = None
        self._failed: set[str] = set()
        self.patient = False
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, name="hook", daemon=True)

    def begin(self) -> Self:
        """Start to report events."""
        self._thread.start()
        return self

    def end(self) -> None:
        """Report the remaining events, within `LAST_S`, and stop."""
        self._over.set()
        self._thread.join(LAST_S)

    def _work(self) -> None:
        clock = SystemClock()
        last = False
        while not last:
            last = self._over.wait(POLL_S)  # one more round after the end, for events that were written before it
            try:
                self._report_news()
            except StoreError:  # the loop, which needs the store as well, reports it
                clock.wait(clock.now() + POLL_S, self._abandoned)
                last = self._abandoned()

    def _abandoned(self) -> bool:
        return self._over.is_set() and not self.patient

    def _report_news(self) -> None:
        if self._seen is None:
            seen = self._store.journal.hook_position(self._run.id)
            for event in self._store.journal.events(self._run.id, until=seen):
                self._matters(event)  # sets the state that was reported last
            self._folder = self._beside()
            self._seen = seen
        for event in self._store.journal.events(self._run.id, after=self._seen):
            why = self._report(event) if self._matters(event) else None
            self._seen = event.seq
            if why is not None and why not in self._failed:
                self._store.journal.warn(self._run.id, SUBJECT, f"the command failed: {why}", time.time())
                self._failed.add(why)
            self._store.journal.set_hook_position(self._run.id, self._seen)

    def _matters(self, event: Event) -> bool:
        """Whether the hook is run for an event.

        For a status only where the state changed, and not for the final one, which has an event of its own.
        """
        if event.kind is EventKind.STATUS:
            before, self._state = self._state, event.subject
            return before != event.subject and event.subject not in _FINAL
        return event.kind in _REPORTED and event.subject != SUBJECT

    def _report(self, event: Event) -> str | None:
        """Run the command for one event; return why it failed, None for success."""
        text = json.dumps(event_json(self._run, event))
        secrets = (*read_secrets(secrets_file(self._store.home, self._run.id)).values(), *secret_values(os.environ))
        return _run(self._run.task.on_event or "", text, self._folder, self._environment(), secrets)

    def _beside(self) -> Path:
        """Return the folder of the task's file, in which the command runs.

        Where it is gone, `$NVLAUNCH_HOME`.
        """
        folder = Path(self._store.find(self._run.id).source).parent
        return folder if folder.is_dir() else self._store.home

    def _environment(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if name not in self._run.task.secrets}


def event_json(run: Run, event: Event) -> dict[str, object]:
    """Return the JSON that the hook gets on stdin."""
    return {
        "run": run.name,
        "id": run.id,
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind.value,
        "subject": event.subject,
        "message": event.message,
        "reason": event.reason,
        "evidence": list(event.evidence),
    }


def _run(command: str, text: str, folder: Path, environment: Mapping[str, str], secrets: Iterable[str]) -> str | None:
    """Return why the command failed; None for success.

    The journal keeps that: so it has neither words of the command itself, nor `secrets`.
    """
    with subprocess.Popen(
        ["/bin/sh", "-c", command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        cwd=folder,
        env=environment,
        start_new_session=True,
    ) as child:
        try:
            _, said = child.communicate(text.encode(), timeout=DEADLINE_S)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, 9)
            return f"killed after {DEADLINE_S:.0f} s"
    if child.returncode == 0:
        return None
    shown = said.decode("utf-8", "replace").strip().splitlines()[-1:]
    lines = without_own_words(shown, words_of(command), secrets)
    return f"exit status {child.returncode}" + (f": {lines[-1]}" if lines else "")
