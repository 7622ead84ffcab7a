"""Entries of a journal as sentences; what is machine readable stays in the JSON."""

import pytest

from launcher.cli.output.events import MAX_CHARS, event_lines
from launcher.core.model.action_key import key_of
from launcher.store.journal import Event, EventKind, OtherKind
from tests.unit.core.model.test_action_key import EVERY_ACTION


def event(kind: EventKind | OtherKind, subject: str, message: str, **more: object) -> Event:
    return Event(seq=1, at=0.0, kind=kind, subject=subject, message=message, reason="start", **more)  # type: ignore[arg-type]


def lines(*events: Event) -> list[str]:
    return [line[21:] if line[0].isdigit() else line for line in event_lines(events)]


@pytest.mark.parametrize(
    ("kind", "subject", "message", "line"),
    [
        (EventKind.RECEIPT, "release:slot:r1-n1", "killed", "receipt      released r1-n1"),
        (EventKind.RECEIPT, "release:head:r1-n1", "killed", "receipt      released the Ray head on r1-n1"),
        (EventKind.INTENT, "release:head", "the run ended", "intent       release the Ray head: the run ended"),
        (EventKind.RECEIPT, "release:head", "killed", "receipt      released the Ray head"),
        (EventKind.INTENT, "acquire:r1-n1", "the run begins", "intent       acquire r1-n1: the run begins"),
        (EventKind.RECEIPT, "acquire:r1-n1", "held: bob", "receipt      acquire r1-n1: held: bob"),
        (EventKind.RECEIPT, "prepare:r1-n1", "done: note", "receipt      started to prepare r1-n1: note"),
        (EventKind.RECEIPT, "join:r1-n1#2", "done", "receipt      started the raylet on r1-n1"),
        (EventKind.RECEIPT, "start_head@1", "done", "receipt      started the Ray head"),
        (EventKind.RECEIPT, "start:run@2", "done", "receipt      started all ranks (attempt 2)"),
        (
            EventKind.RECEIPT,
            "kill:r1-n1:rank:main/0@1#0",
            "not_free: bob computes",
            "receipt      kill the ranks on r1-n1: not_free: bob computes",
        ),
        (EventKind.INTENT, "signal:r1-n1", "it stops", "intent       signal the ranks on r1-n1: it stops"),
        (
            EventKind.INTENT,
            "signal:r1-n1:side",
            "a drain",
            "intent       signal the ranks on r1-n1, gang side: a drain",
        ),
        (EventKind.REQUESTED, "drain:r1-n1", "broken", "requested    drain r1-n1: broken"),
        (EventKind.REQUESTED, "resume", "requested by ann", "requested    resume: requested by ann"),
        (EventKind.STATUS, "running", "4 ranks", "status       running: 4 ranks"),
        (OtherKind("paused"), "job", "for lunch", "paused       job: for lunch"),
        (EventKind.RECEIPT, "juggle:r1-n1", "done", "receipt      juggle:r1-n1: done"),
    ],
)
def test_an_entry_is_a_sentence(kind: EventKind, subject: str, message: str, line: str) -> None:
    assert lines(event(kind, subject, message)) == [line]


@pytest.mark.parametrize("key", [str(key_of(action)) for action in EVERY_ACTION])
def test_what_is_done_is_said_of_every_kind_of_action(key: str) -> None:
    intent, receipt = lines(event(EventKind.INTENT, key, "why")), lines(event(EventKind.RECEIPT, key, "done"))
    assert intent != receipt, "each has its words"


def test_neighbours_that_differ_in_their_node_share_a_line() -> None:
    released = [event(EventKind.RECEIPT, f"release:slot:r1-n{at}", "killed") for at in (1, 2, 3)]
    failed = event(EventKind.RECEIPT, "release:slot:r1-n4", "failed", times=7, evidence=("no route\x1b",))
    assert lines(*released, failed) == [
        "receipt      released r1-n[1-3]",
        "receipt      release r1-n4: failed (7 times)",
        "  | no route\\x1b",
    ]


def test_a_line_of_any_length_is_cut() -> None:
    said, log = "m" * MAX_CHARS, "l" * MAX_CHARS
    whole = event(EventKind.WARNING, "", said[:-2], evidence=(log,))
    assert lines(whole) == [f"warning      : {said[:-2]}", f"  | {log}"]
    longer = event(EventKind.WARNING, "", said, evidence=(f"{log}l",))
    assert lines(longer) == [f"warning      : {said[:-2]} ...", f"  | {log} ..."]
