"""What the head's agent says of nodes: whether it may be shown, and a head that lies, lags or speaks nonsense."""

from typing import Any

import pytest

from launcher.core.model.nodeset import NodeName
from launcher.runtime.protocol import StatusReply
from launcher.runtime.protocol_views import CALM_S, DIRECT, FRESH_S, GONE, NodeViews, packed
from launcher.transport.agent.stream import DISTRUST_S, HeadStream

N1, N2 = NodeName("n1"), NodeName("n2")
AGENT = "a" * 16


def status(number: int, *, agent: str = AGENT, **more: Any) -> StatusReply:
    """Return the status of a node whose rank runs, in its `number`th version."""
    rank = {"member": "main/0", "attempt": 1, "running": True, "quiet": 0.5}
    step = {"generation": 0, "message": ""}
    reply: dict[str, Any] = {
        "ok": True,
        "protocol": 2,
        "agent": 7,
        "ray": {"phase": "running", **step},
        "setup": {"phase": "done", "exit_code": 0, "tail": [], **step},
        "ranks": [rank],
        "version": (agent, number),
        **more,
    }
    return reply  # type: ignore[return-value]  # fields that no test changes are as they are


FAILED: dict[str, Any] = {
    "ranks": [{"member": "main/0", "attempt": 1, "running": False, "exit_code": 1, "ended_ago": 0.2, "tail": []}]
}


class Sight:
    """A stream of two nodes, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.number = 0
        self.stream = HeadStream((N1, N2), lambda: self.now)

    def told(self, *, made: float = 0.5, late: dict[str, float] | None = None, epoch: str = "e", **rows: Any) -> None:
        """Let the head say this of nodes; a status is packed first."""
        self.now += 0.1
        self.number += 1
        data = {name: row if isinstance(row, str) else packed(row) for name, row in rows.items()}
        views: NodeViews = {
            "epoch": epoch,
            "number": self.number,
            "more": False,
            "rows": [{"name": name, "data": one, "made": made} for name, one in data.items()],
            "late": late or {},
        }
        self.stream.take(views, self.now - 0.05)

    def direct(self, reply: StatusReply, node: NodeName = N1, *, took: float = 0.05) -> None:
        """Let a node reply directly."""
        asked = self.now
        self.now += took
        self.stream.compare(node, reply, asked)

    @property
    def warning(self) -> str:
        return self.stream.warnings[0] if self.stream.warnings else ""


@pytest.fixture
def sight() -> Sight:
    return Sight()


def test_a_status_is_shown_until_another_comes_and_its_times_go_on(sight: Sight) -> None:
    quiet = [{"member": "main/0", "attempt": 1, "running": True, "quiet": CALM_S + 5.0}]
    sight.told(n1=status(1, ranks=quiet), n2=status(1))
    sight.now += 100.0
    sight.told()
    first, second = sight.stream.reply(N1), sight.stream.reply(N2)
    assert first["ranks"][0]["quiet"] == pytest.approx(CALM_S + 105.6, abs=0.2)
    assert second["ranks"][0]["quiet"] == 0.5
    assert sight.stream.unconfirmed(N1) == FRESH_S
    assert second["head_silence"] == FRESH_S, "the head hears it, so it hears the head"


def test_ages_are_upper_bounds(sight: Sight) -> None:
    sight.told(n1=status(1))
    assert sight.stream.confirmed(N1) <= sight.now - FRESH_S
    sight.told(late={"n1": 7.0})
    assert sight.stream.confirmed(N1) <= sight.now - 7.0
    assert sight.stream.unconfirmed(N1) == 7.0


@pytest.mark.parametrize(
    "row",
    [
        GONE,
        DIRECT,
        "x",
        packed({"ok": True}),
        packed({**status(2), "ranks": 7}),
        packed({**status(2), "version": ["a", "b"]}),
        packed({**status(2), "ok": False}),
        packed({**status(2), "ray": {"phase": "bogus"}}),
    ],
    ids=["gone", "too-large", "no-text", "no-version", "odd-ranks", "odd-version", "not-ok", "odd-phase"],
)
def test_what_cannot_be_shown_leaves_no_former_status(sight: Sight, row: str) -> None:
    sight.told(n1=status(1))
    sight.told(n1=row)
    assert sight.stream.status(N1) is None
    assert not sight.warning


def test_of_nodes_that_are_none_of_the_run_nothing_is_kept(sight: Sight) -> None:
    rows: dict[str, Any] = {f"x{at}": status(1) for at in range(50)}
    sight.told(**rows)
    assert not sight.stream._rows


def test_a_status_tells_of_no_other_node(sight: Sight) -> None:
    """What a node has probed counts as a witness: the head must not make up any."""
    sight.told(n1=status(1, reachable={"n2": False}, heartbeat_ages={"n2": 99.0}, listening=99.0))
    assert not {"reachable", "heartbeat_ages", "listening"} & sight.stream.reply(N1).keys()


def test_a_status_is_never_shown_once_the_node_has_given_a_later_one(sight: Sight) -> None:
    sight.told(n1=status(3))
    sight.direct(status(4, **FAILED))
    assert sight.stream.status(N1) is None
    sight.told(n1=status(3))
    assert sight.stream.status(N1) is None, "however often the head says it"
    sight.told(n1=status(4, **FAILED))
    assert sight.stream.status(N1) is not None
    assert not sight.warning


def test_a_head_that_is_a_little_behind_is_no_liar(sight: Sight) -> None:
    sight.told(n1=status(1), n2=status(1))
    for number in range(2, 30):
        sight.direct(status(number))
        sight.now += 0.2
        sight.told(n1=status(number - 1), late={"n1": 1.9} if number % 3 else {})
        sight.told(n1=status(number))
        sight.now += 2.0
        sight.told()
    assert not sight.warning


def test_a_head_that_vouches_for_a_status_that_its_node_has_replaced_lags(sight: Sight) -> None:
    sight.told(n1=status(1), n2=status(1))
    sight.direct(status(2, **FAILED))
    sight.now += FRESH_S + 0.1
    sight.told()
    assert "vouches for a status that the node has replaced (`n1`): for 5 minutes all nodes are asked" in sight.warning
    assert sight.stream.status(N1) is None
    assert sight.stream.status(N2) is None
    sight.told(n1=status(2), n2=status(1))
    assert sight.stream.status(N2) is None, "nothing of it is used for some minutes"


def test_a_head_that_admits_its_age_lags_without_a_lie(sight: Sight) -> None:
    sight.told(n1=status(1))
    sight.direct(status(2, **FAILED))
    for _ in range(5):
        sight.now += 1.0
        sight.told(late={"n1": sight.now - 999.0})
    assert not sight.warning


def test_a_head_that_changes_a_status_is_caught_by_a_direct_reply(sight: Sight) -> None:
    sight.told(n1=status(5))
    sight.direct(status(5, **FAILED))
    assert "changed a status on its way" in sight.warning


def test_a_head_that_invents_a_status_is_caught_by_a_direct_reply(sight: Sight) -> None:
    sight.told(n1=status(9, **FAILED))
    sight.now += 1.0
    sight.direct(status(8))
    assert "has a status that the node has never had" in sight.warning


def test_what_became_of_a_node_while_it_was_asked_is_no_lie(sight: Sight) -> None:
    sight.told(n1=status(1))
    asked = sight.now
    sight.now += 0.3
    sight.told(n1=status(2, **FAILED))  # it came after the direct question was sent
    sight.stream.compare(N1, status(1), asked)
    assert not sight.warning


def test_a_head_that_has_the_status_of_an_agent_that_never_was_is_caught(sight: Sight) -> None:
    sight.direct(status(4))
    sight.now += 5.0
    sight.told(n1=status(1, agent="b" * 16))
    sight.told()
    sight.direct(status(4))
    assert "has the status of another agent" in sight.warning


def test_an_agent_that_was_started_again_is_no_lie(sight: Sight) -> None:
    sight.told(n1=status(40))
    sight.direct(status(40))
    sight.now += 5.0
    sight.direct(status(1, agent="b" * 16))
    sight.told()
    sight.now += 5.0
    sight.told(n1=status(1, agent="b" * 16))
    sight.direct(status(1, agent="b" * 16))
    sight.now += 5.0
    sight.told()
    assert not sight.warning


def test_distrust_ends_and_is_said_once(sight: Sight) -> None:
    for _ in range(3):
        sight.told(n1=status(5))
        sight.direct(status(5, **FAILED))
    assert len(sight.stream.warnings) == 1
    assert sight.stream.position == ("", 0)
    sight.now += DISTRUST_S
    sight.told(n1=status(5))
    assert sight.stream.status(N1) is not None


def test_numbers_of_another_epoch_begin_anew(sight: Sight) -> None:
    sight.told(n1=status(1), n2=status(1))
    sight.told(epoch="f", n2=status(1))
    assert sight.stream.status(N1) is None
    assert sight.stream.status(N2) is not None
    assert sight.stream.position[0] == "f"
