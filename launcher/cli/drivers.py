"""How `up` has an accepted run driven: followed, detached, or by this process."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from launcher.admission.launch import Acceptance, AcceptedRun
from launcher.cli.output.console import say
from launcher.cli.output.follow import RunProgress
from launcher.core.model.run import RunId
from launcher.drive.detached import begin, start_detached
from launcher.drive.follow import POLL_S, Follower, follow
from launcher.errors import ExitCode
from launcher.store.rows import RunRow
from launcher.store.store import Store

RUN_CONTINUES = "run `{name}` continues; reattach with `nvlaunch watch {name}`, end it with `nvlaunch down {name}`"
SHUTDOWN_CONTINUES = "shutdown of `{name}` continues; reattach with `nvlaunch down {name}`"


class CommandDriver:
    """Drives accepted runs.

    Ctrl-C ends the command with 130, and leaves the run with a controller.

    `how` tells how the last run was accepted.
    """

    def __init__(self, store: Store, *, detach: bool, foreground: bool) -> None:
        self.how: Acceptance | None = None
        self._store = store
        self._detach = detach
        self._foreground = foreground

    def __call__(self, accepted: AcceptedRun) -> RunRow:
        """Return a run when it has ended.

        A detached or queued one once it has a controller and its nodes.
        """
        self.how = accepted.how
        if self._foreground and accepted.how is not Acceptance.RESIZED and not accepted.interrupted:
            return _drive_here(self._store, accepted.id)
        with detachable(accepted.name):
            if self._detach or accepted.how is Acceptance.QUEUED:
                return start_detached(self._store, accepted)
            begin(self._store, accepted)
            with RunProgress() as progress:
                return follow(self._store, accepted.id, progress, after=accepted.after)


@contextmanager
def detachable(*names: str, message: str = RUN_CONTINUES) -> Iterator[None]:
    """Follow runs in this block.

    Ctrl-C ends only the following, says what continues, and exits with 130.
    """
    try:
        yield
    except KeyboardInterrupt:
        say()
        for name in names:
            say(message.format(name=name))
        raise typer.Exit(ExitCode.INTERRUPTED) from None


def _drive_here(store: Store, run: RunId) -> RunRow:
    """Drive a run to its end in this process, and return it.

    The loop has the main thread, which receives signals; another thread reports what the journal says.
    """
    from launcher.drive.control import control

    over = threading.Event()

    def report() -> None:
        with RunProgress() as progress:
            follower = Follower(store, run, progress)
            while not over.wait(POLL_S):
                follower.poll()
            follower.poll()

    reporter = threading.Thread(target=report, daemon=True)
    reporter.start()
    try:
        control(store.home, run)
    finally:
        over.set()
        reporter.join()
    row = store.find(store.queue.last(run))
    if row.ended is None:
        say(f"run `{row.name}` continues without a controller; `nvlaunch watch {row.name}` starts one")
        raise typer.Exit(ExitCode.INTERRUPTED)
    return row
