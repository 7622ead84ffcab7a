"""`up` for a run that goes on: other slices come and go, those that stay do not move, and the ranks start once more."""

import pytest

from launcher.store.journal import EventKind
from launcher.store.store import Store
from tests.command.test_queue import Hall, hall, task

__all__ = ["hall"]


def placed(at: Hall, name: str) -> dict[str, tuple[str, ...]]:
    run, _ = Store(at.home).load(Store(at.home).find(name).id)
    return {part.key: part.nodes for part in run.placement.slices}


def test_a_run_grows_and_shrinks_and_what_it_keeps_stays(hall: Hall) -> None:
    hall.accepted("job", task(1, 2), "-d")
    hall.until("job", lambda seen: seen["state"] == "running")
    before = placed(hall, "job")
    grown = hall.up("job", task(2, 2), "-d")
    assert grown.returncode == 0, grown.stderr
    assert "1 slice of `job` unchanged" in grown.stderr
    assert "+  main.s1" in grown.stderr
    seen = hall.until("job", lambda seen: seen["state"] == "running" and len(seen["ranks"]) == 4)
    assert seen["attempt"] == 2
    assert placed(hall, "job")["main.s0"] == before["main.s0"]
    shrunk = hall.up("job", task(1, 2), "-d")
    assert shrunk.returncode == 0, shrunk.stderr
    assert "-  main.s1" in shrunk.stderr
    seen = hall.until("job", lambda seen: seen["state"] == "running" and len(seen["ranks"]) == 2)
    assert (seen["attempt"], seen["restarts"]) == (3, 0)
    assert placed(hall, "job") == before
    # What went is for others.
    hall.accepted("other", task(1, 2), "-d")
    events = Store(hall.home).journal.events(hall.row("job").id)
    assert [event.subject for event in events if event.kind is EventKind.REQUESTED] == ["resize", "resize"]


@pytest.mark.parametrize(
    ("text", "code", "said"),
    [
        (task(1, 1), 6, "`topology` changed; only the number of slices can change while `job` is running"),
        (task(1, 2, "envs: {A: 1}"), 6, "`envs` changed; only the number of slices"),
        (task(3, 2), 3, "group `main` does not fit"),
        (task(1, 2), 6, "a run named `job` is"),
        (task(1, 2, "traffic: {compute_s: 1}"), 6, "a run named `job` is"),
        (task(3, 2, "traffic: {compute_s: 1}"), 3, "group `main` does not fit"),
    ],
)
def test_what_cannot_change_is_refused_and_nothing_is_touched(hall: Hall, text: str, code: int, said: str) -> None:
    hall.accepted("job", task(1, 2), "-d")
    before = placed(hall, "job")
    refused = hall.up("job", text)
    assert refused.returncode == code, refused.stderr
    assert said in refused.stderr
    assert placed(hall, "job") == before
    assert Store(hall.home).load(hall.row("job").id)[0].target is None
