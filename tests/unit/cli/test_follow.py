"""A followed run: on a terminal a line for each new state, and for each reason; how far it is changes in place."""

import io
import sys

import pytest

from launcher.cli.output.follow import RunProgress, news
from launcher.store.journal import Event, EventKind

MESSAGES = (
    ("running", "4 of 4 ranks running"),
    ("recovering", "1 node lost, 3 running"),
    ("recovering", "r1-n2: off for 17 s; 1 node lost, 3 running"),
    ("recovering", "r1-n2: off for 27 s; 4 nodes being fenced"),
    ("recovering", "r1-n2: off for 17 s; replaced by r1-n5; 1 node in setup"),
    ("recovering", "r1-n2: off for 17 s; replaced by r1-n5; 4 nodes ready"),
    ("running", "4 of 4 ranks running"),
    ("running", "3 of 4 ranks running, 1 done"),
    ("running", "3 of 4 ranks running, 1 done; unreachable: r1-n3"),
)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The lines that are left on a stream after all messages."""
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "dumb")
    with RunProgress() as progress:
        for at, (state, message) in enumerate(MESSAGES):
            progress.status(Event(seq=at, at=0.0, kind=EventKind.STATUS, subject=state, message=message, reason=""))
    lines = (line[9:] for line in stream.getvalue().splitlines() if line[2:3] == ":")
    return list(lines)


def test_a_terminal_keeps_each_state_and_each_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = [f"{MESSAGES[at][0]}: {MESSAGES[at][1]}" for at in (0, 1, 2, 4, 6, 8)]
    assert shown(Screen(), monkeypatch) == kept


def test_the_dashboard_is_named_once_ranks_run_and_again_when_it_has_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, at = io.StringIO(), ["one"]
    monkeypatch.setattr(sys, "stderr", stream)
    with RunProgress(lambda: tuple(at)) as progress:
        for state in ("starting", "running", "recovering", "running", "recovering", "running"):
            progress.status(Event(seq=1, at=0.0, kind=EventKind.STATUS, subject=state, message="", reason=""))
            at = ["two"] if stream.getvalue().count("running") == 2 else at
    lines = [line for line in stream.getvalue().splitlines() if line in ("one", "two")]
    assert lines == ["one", "two"]


def test_elsewhere_every_status_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(io.StringIO(), monkeypatch) == [f"{state}: {message}" for state, message in MESSAGES]


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("2 nodes in setup, 5 running", set()),
        ("10.0.0.7: 3 of 4 GPUs; 1 node lost", {"10.0.0.7: 3 of 4 GPUs"}),
        (
            "main/1 waits for n2, unreachable for 40 s; fails after 5m",
            {"main/1 waits for n2, unreachable for ", "fails after "},
        ),
    ],
)
def test_progress_and_spans_of_time_are_no_news(message: str, found: set[str]) -> None:
    assert news(message) == found
