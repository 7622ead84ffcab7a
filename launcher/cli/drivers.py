"""How `up` has an accepted run driven: followed, detached, or by this process."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from launcher.admission.launch import Acceptance, AcceptedRun
from launcher.cli.output.console import clean, say
from launcher.cli.output.follow import ProgramOutput, RunProgress
from launcher.cli.output.logs import LogPrinter
from launcher.cli.output.status import dashboard_lines
from launcher.cli.redact import values_pattern
from launcher.drive.detached import begin, start_detached
from launcher.drive.follow import POLL_S, Follower, follow
from launcher.drive.output import OutputReader
from launcher.errors import ExitCode
from launcher.store.rows import RunRow
from launcher.store.run_files import read_secrets, secrets_file
from launcher.store.status_reads import StatusReader
from launcher.store.store import Store

RUN_CONTINUES = "run `{name}` continues; reattach with `nvlaunch watch {name}`, end it with `nvlaunch down {name}`"
SHUTDOWN_CONTINUES = "shutdown of `{name}` continues; reattach with `nvlaunch down {name}`"


ALL_RANKS, NO_RANK = "all", "none"


class CommandDriver:
    """Drives accepted runs, and shows the output of a rank.

    Ctrl-C ends the command with 130, and leaves the run with a controller.

    `how` tells how the last run was accepted. `rank` is whose output is shown: a rank, ALL_RANKS, or NO_RANK; None for
    the first one.
    """

    def __init__(self, store: Store, *, detach: bool, foreground: bool, rank: str | None = None) -> None:
        self.how: Acceptance | None = None
        self._store = store
        self._detach = detach
        self._foreground = foreground
        self._rank = rank

    def __call__(self, accepted: AcceptedRun) -> RunRow:
        """Return a run when it has ended.

        A detached or queued one once it has a controller and its nodes.
        """
        self.how = accepted.how
        if self._foreground and accepted.how is not Acceptance.RESIZED and not accepted.interrupted:
            return _drive_here(self._store, accepted, self._rank)
        with detachable(accepted.name):
            if self._detach or accepted.how is Acceptance.QUEUED:
                return start_detached(self._store, accepted)
            begin(self._store, accepted)
            with (
                RunProgress(_dashboard(self._store, accepted)) as progress,
                _output(self._store, accepted, self._rank, progress) as show,
            ):
                return follow(self._store, accepted.id, progress, after=accepted.after, each=show)


@contextmanager
def _output(
    store: Store, accepted: AcceptedRun, rank: str | None, progress: RunProgress
) -> Iterator[Callable[[], None]]:
    """Return what prints the new output of a rank: nothing where no program runs."""
    run, _ = store.load(accepted.id)
    if rank == NO_RANK or run.fleet.capabilities.imaginary:
        yield lambda: None
        return
    first = next(iter(run.members())).name if run.placement.slices else f"{run.task.groups[0].name}/0"
    shown = None if rank == ALL_RANKS else rank or first
    pattern, longest = values_pattern(read_secrets(secrets_file(store.home, run.id)).values())
    printer = LogPrinter(labelled=shown is None, lines=True, secrets=pattern, longest=longest)
    reader = OutputReader(store.home, run.id, shown, from_end=accepted.how is Acceptance.RESIZED)
    whose = "all ranks" if shown is None else f"rank {shown}"
    hint = f"Output of {whose}. Later, and of other ranks: nvlaunch logs {run.name}"
    with ProgramOutput(reader, printer, progress, clean(hint)) as output:
        yield output.show


def _dashboard(store: Store, accepted: AcceptedRun) -> Callable[[], Iterator[str]]:
    """Return what reads the lines about the dashboard of a run."""
    return lambda: dashboard_lines(json.loads(StatusReader(store.home).find(accepted.id).snapshot))


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


def _drive_here(store: Store, accepted: AcceptedRun, rank: str | None) -> RunRow:
    """Drive a run to its end in this process, and return it.

    The loop has the main thread, which receives signals; another thread reports what the journal says.
    """
    from launcher.drive.control import control

    run, over = accepted.id, threading.Event()

    def report() -> None:
        with RunProgress(_dashboard(store, accepted)) as progress, _output(store, accepted, rank, progress) as show:
            follower = Follower(store, run, progress)
            while not over.wait(POLL_S):
                follower.poll()
                show()
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
