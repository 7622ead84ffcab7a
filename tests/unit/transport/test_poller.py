"""A look never waits for long: machines that answer late, not at all, or again, by a shell that the tests play."""

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access
from launcher.core.model.run import RunId
from launcher.errors import RemoteError
from launcher.ports import Completed
from launcher.setup import layout, ports
from launcher.transport.agent import connection, poller
from launcher.transport.agent.client import AgentClient
from launcher.transport.agent.poller import Poller

Answerer = Callable[[dict[str, Any]], "dict[str, Any] | None"]


class Wire:
    """A connection: each line is handed to an agent of the test, whose answer, if any, comes back."""

    def __init__(self, machine: "Machine") -> None:
        self._machine = machine
        self._said: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def send(self, data: bytes) -> None:
        for line in data.splitlines():
            asked = json.loads(line)
            answer = self._machine.answer(asked)
            if answer is not None:
                self._said.put(json.dumps({"key": asked["key"], **answer}).encode() + b"\n")

    def read(self) -> bytes:
        return self._said.get()

    def last_words(self) -> str:
        return "the connection was lost"

    def give_up(self) -> None:
        self._machine.given_up += 1
        self._said.put(b"")

    def close(self) -> None:
        self._said.put(b"")


class Machine:
    """What a machine answers: by default that its agent lives; `silent` says nothing, `down` lets nobody in; `hangs`:
    its agent does not answer."""

    def __init__(self) -> None:
        self.silent = self.down = self.hangs = False
        self.dials = self.given_up = 0
        self.asked: list[dict[str, Any]] = []

    def answer(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        self.asked.append(asked)
        if self.hangs:
            return {"message": f"the agent did not answer within {asked['limit']:.0f} s"}
        return None if self.silent else {"answer": {"ok": True, "agent": 7, "block": len(self.asked)}}


class Machines:
    """A shell to machines by address."""

    def __init__(self) -> None:
        self.by: dict[str, Machine] = {}

    def converse(self, at: Access, argv: Sequence[str], *, timeout: float, knock: float) -> Wire:
        machine = self.by.setdefault(at.address, Machine())
        machine.dials += 1
        if machine.down:
            raise RemoteError("no answer on port 22 within 2 s", node=at.address, stage="connect")
        return Wire(machine)


class Once:
    """A shell that runs a program for a single question."""

    def run(self, at: Access, argv: Sequence[str], *, stdin: bytes, timeout: float) -> Completed:
        return Completed(status=0, stdout=b'{"ok": true}', stderr=b"")


@pytest.fixture
def machines() -> Machines:
    return Machines()


@pytest.fixture
def sight(machines: Machines, monkeypatch: pytest.MonkeyPatch) -> Iterator[Poller]:
    """Poller whose times are a tenth of the real ones."""
    for module, name in (
        (poller, "PATIENCE_S"),
        (poller, "FIRST_S"),
        (connection, "MUTE_S"),
        (connection, "PAUSE_S"),
        (poller, "KEPT_S"),
    ):
        monkeypatch.setattr(module, name, getattr(module, name) / 10)
    made = Poller(machines)  # type: ignore[arg-type]  # the one method that a look needs
    yield made
    made.close()


def site(name: str, address: str = "") -> AgentClient:
    return AgentClient(
        name=name,
        unit=Unit.SLOT,
        shell=None,  # type: ignore[arg-type]  # nothing else is asked of it
        access=Access(address=address or name),
        layout=layout.remote(RunId("r"), name),
        blocks=ports.wide(),
        leases=(),
        shared=False,
        python="python3",
    )


def look(sight: Poller, *names: str) -> list[dict[str, Any]]:
    return sight.look([site(name) for name in names], [{"op": "status"} for _ in names])


def act(sight: Poller, name: str) -> None:
    with sight.acting([site(name)]):
        pass


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 10
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_each_look_is_answered_by_what_was_asked_in_it(sight: Poller) -> None:
    assert [answer["block"] for answer in look(sight, "n1", "n2")] == [1, 1]
    assert [answer["block"] for answer in look(sight, "n1", "n2")] == [2, 2]


def test_what_is_answered_may_be_added_to_without_being_shown_again(sight: Poller, machines: Machines) -> None:
    (told,) = look(sight, "n1")
    told["block"] = told["more"] = "written over"
    machines.by["n1"].silent = True
    (again,) = look(sight, "n1")
    assert again == {"ok": True, "agent": 7, "block": 1}


def test_a_silent_machine_keeps_its_last_view_for_a_while_and_is_then_unseen(sight: Poller, machines: Machines) -> None:
    look(sight, "n1", "n2")
    machines.by["n1"].silent = True
    begun = time.monotonic()
    first, other = look(sight, "n1", "n2")
    assert time.monotonic() - begun < poller.PATIENCE_S + 0.3
    assert (first["block"], other["block"]) == (1, 2)
    until(lambda: ", since " in look(sight, "n1")[0].get("message", ""))
    assert machines.by["n1"].given_up > 0
    assert look(sight, "n1")[0]["message"].startswith("the connection was lost, since ")
    assert len(machines.by["n2"].asked) == 2


def test_a_machine_that_is_silent_for_long_costs_a_look_no_time(sight: Poller, machines: Machines) -> None:
    look(sight, "n1", "n2")
    machines.by["n1"].silent = machines.by["n1"].down = True
    until(lambda: "no answer on port 22" in look(sight, "n1", "n2")[0].get("message", ""))
    begun = time.monotonic()
    for _ in range(20):
        assert look(sight, "n1", "n2")[1]["ok"]
    assert time.monotonic() - begun < 20 * poller.PATIENCE_S / 2


def test_since_when_a_machine_is_silent_does_not_change_with_each_look(sight: Poller, machines: Machines) -> None:
    machines.by["n1"] = Machine()
    machines.by["n1"].down = True
    until(lambda: ", since " in look(sight, "n1")[0]["message"])
    first = look(sight, "n1")[0]["message"]
    dials = machines.by["n1"].dials
    until(lambda: bool(look(sight, "n1")) and machines.by["n1"].dials > dials + 2)
    assert look(sight, "n1")[0]["message"] == first


def test_a_machine_that_returns_is_seen_at_once(sight: Poller, machines: Machines) -> None:
    machines.by["n1"] = Machine()
    machines.by["n1"].down = True
    until(lambda: ", since " in look(sight, "n1")[0]["message"])
    machines.by["n1"].down = False
    back = time.monotonic()
    until(lambda: bool(look(sight, "n1")[0]["ok"]))
    assert time.monotonic() - back < 1.0


def test_one_question_at_a_time_is_under_way(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    machines.by["n1"].silent = True
    look(sight, "n1")
    asked = len(machines.by["n1"].asked)
    begun = time.monotonic()
    while time.monotonic() - begun < connection.MUTE_S / 2:
        look(sight, "n1")
    assert len(machines.by["n1"].asked) == asked


def test_an_action_ends_what_was_seen_before_it(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    machines.by["n1"].silent = True
    act(sight, "n1")
    assert look(sight, "n1")[0] == {"ok": False, "message": "no reply in time"}


def test_a_late_answer_of_before_an_action_is_not_taken_for_one_of_after_it(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    hold = threading.Event()

    class Slow(Machine):
        def answer(self, asked: dict[str, Any]) -> dict[str, Any] | None:
            number = len(self.asked)
            if number == 1:
                hold.wait(5)
            return super().answer(asked)

    machines.by["n2"] = Slow()
    look(sight, "n2")
    look(sight, "n2")  # its question is under way when the action ends
    act(sight, "n2")
    hold.set()
    until(lambda: bool(look(sight, "n2")[0]["ok"]))
    assert look(sight, "n2")[0]["block"] >= 3


def test_connections_that_nobody_uses_are_closed_and_made_again(
    sight: Poller, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "SPARED_S", 0.0)
    look(sight, "n1", "n2", "n3")
    monkeypatch.setattr(poller, "IDLE_S", 0.05)
    until(lambda: bool(look(sight, "n1")) and sum(one.is_open for one in sight._machines.values()) == 1)
    assert machines.by["n2"].dials == 1
    assert look(sight, "n2")[0]["ok"]
    assert machines.by["n2"].dials == 2
    assert machines.by["n2"].given_up == 0


def test_no_more_connections_are_kept_than_allowed(
    sight: Poller, machines: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(poller, "SPARED_S", 0.0)
    monkeypatch.setattr(sight, "_most", 10)
    names = [f"n{at}" for at in range(50)]
    assert all(told["ok"] for told in look(sight, *names)), "a look may have as many as it asks"
    until(lambda: bool(look(sight, "n1")) and sum(one.is_open for one in sight._machines.values()) == 10)
    assert machines.by["n1"].dials == 1, "the one in use is not closed"


def asked(sight: Poller, name: str, question: dict[str, Any], timeout: float = 5.0) -> dict[str, Any] | None:
    return sight.ask(site(name), question, timeout)


def test_a_question_goes_over_the_connection_of_looks(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    assert asked(sight, "n1", {"op": "hello"}) == {"ok": True, "agent": 7, "block": 2}
    assert [one["question"]["op"] for one in machines.by["n1"].asked] == ["status", "hello"]
    assert machines.by["n1"].asked[-1]["limit"] == 5.0
    assert machines.by["n1"].dials == 1


def test_without_a_connection_a_question_finds_none(sight: Poller, machines: Machines) -> None:
    assert asked(sight, "n1", {"op": "hello"}) is None
    assert not machines.by


def test_a_question_whose_connection_is_lost_may_be_asked_another_way(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    machines.by["n1"].silent = True
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(asked, sight, "n1", {"op": "hello"})
        until(lambda: machines.by["n1"].asked[-1]["question"]["op"] == "hello")
        until(lambda: not look(sight, "n1")[0]["ok"] and waiting.done())
        assert waiting.result() is None
    assert machines.by["n1"].given_up == 1


def test_a_agent_that_hangs_is_said_to_in_the_words_of_its_machine(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    machines.by["n1"].hangs = True
    with pytest.raises(RemoteError, match=r"the agent did not answer within 5 s") as caught:
        asked(sight, "n1", {"op": "kill"})
    assert (caught.value.node, caught.value.stage) == ("n1", "kill")


def test_what_is_too_long_for_a_kept_connection_is_sent_by_itself(sight: Poller, machines: Machines) -> None:
    look(sight, "n1")
    shell = Once()
    here = replace(site("n1"), shell=shell, connections=sight)
    assert here.ask({"op": "hello"}, timeout=5)["block"] == 2
    assert here.ask({"op": "start", "ranks": "x" * 40_000}, timeout=5) == {"ok": True}
    assert len(machines.by["n1"].asked) == 2
