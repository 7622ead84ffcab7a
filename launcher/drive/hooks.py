"""`on_event`: the user's command is told what happens in a run, one event after the other, beside the loop."""

import json
import os
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from typing_extensions import Self

from launcher.core.model.run import Run, RunState
from launcher.errors import StoreError
from launcher.store.journal import Event, EventKind
from launcher.store.store import Store
from launcher.transport.clock import SystemClock

DEADLINE_S = 30.0
"""How long the command may take for one event (s); then it and all that it started in its group are killed."""
LAST_S = 60.0
"""How long a run that is over waits until its hook was told of that (s)."""
POLL_S = 0.5
"""How often the journal is read (s)."""

SUBJECT = "on_event"
"""What warnings about the hook itself are about; of these it is not told."""

_TOLD = (
    EventKind.QUEUED,
    EventKind.LAUNCHED,
    EventKind.WARNING,
    EventKind.WANTED,
    EventKind.REQUESTED,
    EventKind.NODE_FAILED,
    EventKind.READMITTED,
    EventKind.ENDED,
)

_FINAL = [state.value for state in RunState if state.final]


class Hook:
    """Tells the command of a run each event once, in order. What it has been told is kept with the run, so that the
    next controller goes on from there; one that was killed midway tells the last event again.

    A store that fails is asked again, also after `end` where it is `patient`: of a run that goes on, the next
    controller tells what this one could not."""

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
        """Begin to tell."""
        self._thread.start()
        return self

    def end(self) -> None:
        """Tell what is left, for a while, and stop."""
        self._over.set()
        self._thread.join(LAST_S)

    def _work(self) -> None:
        clock = SystemClock()
        last = False
        while not last:
            last = self._over.wait(POLL_S)  # once more after the end: what was written before it is told
            try:
                self._tell_news()
            except StoreError:  # the loop says so, which needs the store as well
                clock.wait(clock.now() + POLL_S, self._given_up)
                last = self._given_up()

    def _given_up(self) -> bool:
        return self._over.is_set() and not self.patient

    def _tell_news(self) -> None:
        if self._seen is None:
            seen = self._store.told(self._run.id)
            for event in self._store.events(self._run.id, until=seen):
                self._matters(event)  # which state was told last
            self._folder = self._beside()
            self._seen = seen
        for event in self._store.events(self._run.id, after=self._seen):
            why = self._told(event) if self._matters(event) else None
            self._seen = event.seq
            if why is not None and why not in self._failed:
                self._store.warn(self._run.id, SUBJECT, f"`{self._run.task.on_event}`: {why}", time.time())
                self._failed.add(why)
            self._store.tell(self._run.id, self._seen)

    def _matters(self, event: Event) -> bool:
        """A status message matters only where the state changed: how far a start has come is for those who follow.
        The end of a run is an event of its own."""
        if event.kind is EventKind.STATUS:
            before, self._state = self._state, event.subject
            return before != event.subject and event.subject not in _FINAL
        return event.kind in _TOLD and event.subject != SUBJECT

    def _told(self, event: Event) -> str | None:
        """Tell one event; return why the command failed, None where it did not."""
        text = json.dumps(event_json(self._run, event))
        return _run(self._run.task.on_event or "", text, self._folder, self._environment())

    def _beside(self) -> Path:
        """The command is written as seen from the task's file; where that folder is gone, from the home of runs."""
        folder = Path(self._store.find(self._run.id).source).parent
        return folder if folder.is_dir() else self._store.home

    def _environment(self) -> Mapping[str, str]:
        return {name: value for name, value in os.environ.items() if name not in self._run.task.secrets}


def event_json(run: Run, event: Event) -> dict[str, object]:
    """Return an event as the hook reads it."""
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


def _run(command: str, text: str, folder: Path, environment: Mapping[str, str]) -> str | None:
    """Return why the command failed; None where it did not."""
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
            return f"it was killed after {DEADLINE_S:.0f} s"
    if child.returncode == 0:
        return None
    lines = said.decode("utf-8", "replace").strip().splitlines()
    return f"exit status {child.returncode}" + (f": {lines[-1]}" if lines else "")
