"""`queue`: the runs that wait for their turn, why, and by when it comes."""

import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from launcher.cli.options import As, Output, home
from launcher.cli.output.console import clean, say, show, warn
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.core.queue.backfill import QueuedRun
    from launcher.errors import OtherVersionError
    from launcher.store.store import Store


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(queue)


def queue(output: As = Output.TEXT) -> None:
    """Show the runs that wait for their turn.

    In order, each with the reason. The time is by when its turn comes if
    every run takes all of its `time_limit`; without limits nobody knows.

    \b
    Example:
      nvlaunch queue
      nvlaunch queue -o json
    """
    from launcher.store.store import Store

    entries = list(_entries(Store(home())))
    if output is Output.JSON:
        show(json.dumps([entry.json() for entry in entries], indent=2))
    elif entries:
        show(_text(entries))
    else:
        say("nobody waits; `nvlaunch up --queue FILE` does where a task does not fit")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Entry:
    """One run that waits: its number in the line of its inventory, None where nobody could start it."""

    waiting: "QueuedRun"
    inventory: str
    position: int | None
    starts_by: float | None
    reason: str

    def json(self) -> dict[str, object]:
        """Return it as `queue -o json` writes it; times in seconds since the epoch."""
        return {
            "name": self.waiting.name,
            "id": self.waiting.id,
            "inventory": self.inventory,
            "position": self.position,
            "priority": self.waiting.task.priority,
            "since": self.waiting.since,
            "starts_by": self.starts_by,
            "reason": self.reason,
        }


def _entries(store: "Store") -> Iterator[_Entry]:
    from launcher.admission.current_inventory import whole
    from launcher.admission.preflight import guessed
    from launcher.admission.queue_explain import line, reason
    from launcher.core.model.run import RunState

    rows, unreadable = store.live()
    warned = _warn(unreadable, set())
    for name in sorted({row.fleet for row in rows if row.state is RunState.QUEUED}):
        now = time.time()
        world = store.queue.world(name, now)
        warned = _warn(world.unreadable, warned)
        if not world.waiting:
            continue
        fleet = guessed(whole(store, store.load(world.waiting[0].id)[0].fleet), store.domains(name))
        for position, turn in enumerate(line(fleet, world), start=1):
            yield _Entry(
                waiting=turn.run,
                inventory=name,
                position=position,
                starts_by=None if turn.after is None else now + turn.after,
                reason=reason(turn, fleet, world),
            )
        for one in world.waiting:
            if one.id not in world.driven:
                why = f"no controller waits with it; `nvlaunch watch {one.name}` starts one"
                yield _Entry(waiting=one, inventory=name, position=None, starts_by=None, reason=why)


def _warn(errors: "Iterable[OtherVersionError]", warned: set[str]) -> set[str]:
    """Name each run that cannot be read, once; return which have been."""
    for error in errors:
        if error.run not in warned:
            warn(error.advice)
    return warned | {error.run for error in errors}


def _text(entries: list[_Entry]) -> str:
    from launcher.cli.output.status import age
    from launcher.cli.output.table import table

    now = time.time()
    rows = [
        (
            str(entry.position or "-"),
            entry.waiting.name,
            entry.inventory,
            str(entry.waiting.task.priority),
            age(now - entry.waiting.since),
            _by(entry, now),
            clean(entry.reason),
        )
        for entry in entries
    ]
    return table(("NUMBER", "NAME", "INVENTORY", "PRIORITY", "WAITED", "STARTS BY", "WHY"), rows)


def _by(entry: _Entry, now: float) -> str:
    """Return a time of today as such, any other with its date."""
    if entry.starts_by is None:
        return "unknown"
    at, today = time.localtime(entry.starts_by), time.localtime(now)
    return time.strftime("%H:%M" if at[:3] == today[:3] else "%Y-%m-%d %H:%M", at)
