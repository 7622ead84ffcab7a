"""Keys of actions: which are the same act, and which have to wait for another."""

from typing import get_args

import pytest

from launcher.core.model.action_key import ActionKey, ActionKind, InFlight, key_of, parse_key
from launcher.core.model.actions import (
    Acquire,
    Action,
    AddSpare,
    Announce,
    Grow,
    Join,
    Kill,
    Level,
    Move,
    Park,
    PowerOff,
    PowerQuery,
    Prepare,
    Reason,
    Release,
    Relocate,
    Reserve,
    Resize,
    ReturnSpare,
    Signal,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
    Why,
)
from launcher.core.model.move_order import MoveOrder
from launcher.core.model.run import GangName, MemberName, Slot
from tests.situations import name

WHY = Reason(why=Why.START, message="the run begins")
NODE, OTHER = name(1, 1), name(1, 2)
GANG, MEMBER = GangName("run"), MemberName("main/0")


def kill(level: Level, *, attempt: int = 1, why: Reason = WHY) -> Kill:
    return Kill(reason=why, node=NODE, level=level, member=MEMBER, gang=GANG, attempt=attempt)


@pytest.mark.parametrize(
    ("action", "text"),
    [
        (Acquire(reason=WHY, node=NODE), "acquire:r1-n1"),
        (StartHead(reason=WHY), "start_head"),
        (StartHead(reason=WHY, cluster=2), "start_head@2"),
        (Start(reason=WHY, gang=GANG, attempt=3, restarts=1, slots=()), "start:run@3"),
        (kill(Level.RANK), "kill:r1-n1:rank:main/0@1#0"),
        (Release(reason=WHY, node=None, unit=Unit.HEAD), "release:head"),
        (Resize(reason=WHY), "resize"),
        (Resize(reason=WHY, drop="main.s1"), "resize"),
        (Grow(reason=WHY), "grow"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_text_of_a_key_names_the_act_its_subject_and_its_numbers(action: Action, text: str) -> None:
    assert str(key_of(action)) == text


SLOT = Slot(member=MEMBER, node=NODE, generation=2)
EVERY_ACTION: tuple[Action, ...] = (
    Acquire(reason=WHY, node=NODE),
    Prepare(reason=WHY, node=NODE, member=MEMBER),
    StartHead(reason=WHY),
    StartHead(reason=WHY, cluster=2),
    Join(reason=WHY, slot=SLOT),
    Park(reason=WHY, slot=SLOT),
    Reserve(reason=WHY, slice="main.s0"),
    Unreserve(reason=WHY, slice="main.s0"),
    Verify(reason=WHY, slice="main.s0"),
    Start(reason=WHY, gang=GANG, attempt=3, restarts=1, slots=()),
    Start(reason=WHY, gang=GangName("main/0"), attempt=3, restarts=1, slots=()),
    Announce(reason=WHY, slot=SLOT, deadline=1.0),
    Signal(reason=WHY, node=NODE, signal="TERM"),
    Signal(reason=WHY, node=NODE, signal="TERM", gang=GangName("main/0")),
    *(kill(level) for level in Level),
    Release(reason=WHY, node=NODE),
    Release(reason=WHY, node=NODE, unit=Unit.HEAD),
    Release(reason=WHY, node=None, unit=Unit.HEAD),
    PowerOff(reason=WHY, node=NODE),
    PowerQuery(reason=WHY, node=NODE),
    AddSpare(reason=WHY, slice="main.s0"),
    ReturnSpare(reason=WHY, node=NODE),
    Relocate(reason=WHY, slice="main.s0"),
    Move(reason=WHY, order=MoveOrder(plan="defrag-ab12")),
    Resize(reason=WHY),
    Grow(reason=WHY),
)


@pytest.mark.parametrize("action", EVERY_ACTION, ids=lambda action: str(key_of(action)))
def test_the_text_of_every_key_is_read_back(action: Action) -> None:
    assert parse_key(str(key_of(action))) == key_of(action)


def test_every_kind_of_action_is_read_back() -> None:
    assert {action.kind for action in EVERY_ACTION} == set(get_args(ActionKind))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "job",
        "juggle:r1-n1",
        "kill:r1-n1:planet:main/0@1#0",
        "release:r1-n1",
        "resize:r1-n1",
        "kill:r1-n1:rank",
        "release",
        "start@1",
        "start:run@x",
        "join:a#1@2",
    ],
)
def test_the_text_of_no_known_act_is_no_key(text: str) -> None:
    assert parse_key(text) is None


def test_the_same_act_for_another_reason_has_the_same_key_and_another_attempt_another() -> None:
    again = kill(Level.RANK, why=Reason(why=Why.STOP, message="on request"))
    assert key_of(again) == key_of(kill(Level.RANK))
    assert key_of(kill(Level.RANK, attempt=2)) != key_of(kill(Level.RANK))


@pytest.mark.parametrize(
    ("action", "under_way", "another"),
    [
        (
            Acquire(reason=WHY, node=NODE),
            ActionKey("release", node=NODE, unit=Unit.SLOT),
            ActionKey("release", node=OTHER, unit=Unit.SLOT),
        ),
        (
            StartHead(reason=WHY),
            ActionKey("release", node=NODE, unit=Unit.HEAD),
            ActionKey("release", node=NODE, unit=Unit.SLOT),
        ),
        (
            kill(Level.RANK),
            ActionKey("start", gang=GANG, attempt=1),
            ActionKey("start", gang=GangName("other"), attempt=1),
        ),
        (
            kill(Level.GENERATION),
            ActionKey("join", node=NODE, generation=0),
            ActionKey("join", node=OTHER, generation=0),
        ),
        (Resize(reason=WHY), ActionKey("relocate", slice="main.s0"), ActionKey("verify", slice="main.s0")),
    ],
    ids=["lease", "head", "rank", "raylet", "resize"],
)
def test_an_action_waits_for_what_it_would_miss_and_for_nothing_else(
    action: Action, under_way: ActionKey, another: ActionKey
) -> None:
    assert InFlight([under_way]).blocks(action)
    assert not InFlight([another]).blocks(action)


def test_a_node_is_given_back_only_while_nothing_else_changes_which_nodes_the_run_has() -> None:
    back = ReturnSpare(reason=WHY, node=NODE)
    for other in (AddSpare(reason=WHY, slice="main.s0"), Relocate(reason=WHY, slice="main.s0"), Resize(reason=WHY)):
        assert InFlight([key_of(back)]).blocks(other)
        assert InFlight([key_of(other)]).blocks(back)
