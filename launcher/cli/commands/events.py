"""`events`: the journal of a run, as people read it."""

import json
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

import typer

from launcher.cli.options import As, Follow, Output, RunWord, home
from launcher.cli.output.console import clean, pause, show
from launcher.cli.plain import PlainCommand

if TYPE_CHECKING:
    from launcher.store.journal import Event


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command(cls=PlainCommand)(events)


def events(run: RunWord, follow: Follow = False, output: As = Output.TEXT) -> None:
    """Show what was done in a run, and why.

    Each entry says when, what kind (a decision, its outcome, an order),
    on which node or slice, the reason, and the lines that show it. With
    `-f -o json`: one JSON object a line.

    \b
    Example:
      nvlaunch events vla-pretrain
      nvlaunch events vla-pretrain -f -o json
    """
    from launcher.store.store import Store

    store = Store(home())
    found = store.find(run)
    if not follow:
        _show(store.events(found.id), output)
        return
    seen = 0
    while True:
        over = store.find(found.id).ended is not None
        news = store.events(found.id, after=seen)
        seen = news[-1].seq if news else seen
        for line in map(_json_line, news) if output is Output.JSON else _lines(news):
            show(line)
        if over:
            return
        pause(0.2)


def _show(found: "Sequence[Event]", output: Output) -> None:
    if output is Output.JSON:
        show(json.dumps([_plain(event) for event in found], indent=2))
    else:
        show("\n".join(_lines(found)))


def _lines(found: "Sequence[Event]") -> Iterator[str]:
    """Neighbours that differ in their node alone stand in one line: `acquire:r07-n[01-16]`."""
    from launcher.core.model.nodeset import fold

    for (when, kind, _, words, reason, evidence), alike in groupby(found, _all_but_node):
        subjects = [event.subject for event in alike]
        subject = subjects[0] if len(subjects) == 1 else fold(subjects)
        why = f" ({reason})" if reason else ""
        yield clean(f"{when}  {kind:9}  {subject}: {words}{why}").replace("\n", " ")
        yield from (clean(f"  | {line}") for line in evidence)


def _all_but_node(event: "Event") -> tuple[str, str, str, str, str, tuple[str, ...]]:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    words = event.message if event.times == 1 else f"{event.message} ({event.times} times)"
    return when, event.kind.value, event.subject.partition(":")[0], words, event.reason, event.evidence


def _json_line(event: "Event") -> str:
    return json.dumps(_plain(event))


def _plain(event: "Event") -> dict[str, object]:
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind.value,
        "subject": event.subject,
        "message": event.message,
        "reason": event.reason,
        "times": event.times,
        "evidence": list(event.evidence),
    }
