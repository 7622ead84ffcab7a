"""What a result means, and which numbers are suspect."""

import pytest

from launcher.core.checks.results import (
    CheckedNode,
    Measurement,
    NodeVerdict,
    cannot_tell,
    judge,
    mark_suspects,
    read_number,
    usual_speed,
)
from launcher.core.model.checks import NodeCheck
from launcher.core.model.inventory import RackName
from launcher.core.model.nodeset import NodeName

CHECK = NodeCheck(script="x", slower_by=1.25)
SECONDS = NodeCheck(script="x", slower_by=1.25, lower_is_better=True)
NODES = [NodeName(f"n{at}") for at in range(12)]


@pytest.mark.parametrize(
    ("output", "number"),
    [
        ("812.5\n", 812.5),
        ("warm-up\n  7e2  \n\n", 700.0),
        ("-3", -3.0),
        (".5", 0.5),
        ("", None),
        ("812 GB/s", None),
        ("812.5\ndone", None),
        ("nan", None),
        ("inf", None),
        ("1e999", None),
        ("1e300", None),
        ("1_000", None),
        ("٣", None),
        ("9" * 100, None),
        ("0x10", None),
    ],
)
def test_only_a_plain_number_in_the_last_line_counts(output: str, number: float | None) -> None:
    assert read_number(output) == number


@pytest.mark.parametrize(
    ("status", "verdict"),
    [(0, "good"), (1, "bad"), (2, "cannot-tell"), (127, "cannot-tell"), (137, "cannot-tell"), (255, "cannot-tell")],
)
def test_status_0_is_good_1_bad_and_any_other_cannot_tell(status: int, verdict: str) -> None:
    assert judge(NODES[0], status, "5").verdict.value == verdict


def test_a_missing_command_is_named_and_only_a_good_result_has_a_number() -> None:
    found = judge(NODES[0], 127, "", ("sh: dcgmi: not found",))
    assert found.message == "the command is not found: sh: dcgmi: not found"
    assert judge(NODES[0], 1, "812").number is None
    assert judge(NODES[0], 0, "812").number == 812


def _now(numbers: dict[int, float]) -> list[CheckedNode]:
    return [CheckedNode(node=NODES[at], verdict=NodeVerdict.GOOD, number=number) for at, number in numbers.items()]


def _history(numbers: dict[int, float], *, at: float = 900.0, size: int = 1) -> list[Measurement]:
    return [
        Measurement(node=NODES[node], rack=RackName("r1"), at=at, number=number, size=size)
        for node, number in numbers.items()
    ]


def _suspects(check: NodeCheck, now: dict[int, float], history: list[Measurement]) -> list[int]:
    found = mark_suspects(check, _now(now), 1, history, 1000.0)
    return [NODES.index(one.node) for one in found if one.verdict is NodeVerdict.SUSPECT]


def test_a_number_that_is_much_worse_than_the_history_of_other_nodes_is_suspect() -> None:
    history = _history(dict.fromkeys(range(1, 7), 100.0))
    assert _suspects(CHECK, {0: 79.0}, history) == [0]
    assert _suspects(CHECK, {0: 81.0}, history) == []
    assert _suspects(SECONDS, {0: 126.0}, history) == [0]
    assert _suspects(SECONDS, {0: 50.0}, history) == []


def test_with_too_short_a_history_nothing_is_suspect() -> None:
    assert _suspects(CHECK, {0: 1.0}, _history(dict.fromkeys(range(1, 5), 100.0))) == []


def test_own_old_and_other_sized_numbers_do_not_count() -> None:
    old = _history(dict.fromkeys(range(1, 7), 100.0), at=1000.0 - 31 * 86400)
    other = _history(dict.fromkeys(range(1, 7), 100.0), size=2)
    own = _history({0: 100.0}) * 9
    assert _suspects(CHECK, {0: 1.0}, [*old, *other, *own]) == []


def test_the_newest_number_of_a_node_counts() -> None:
    before = _history(dict.fromkeys(range(1, 7), 10.0), at=500.0)
    assert _suspects(CHECK, {0: 50.0}, [*before, *_history(dict.fromkeys(range(1, 7), 100.0))]) == [0]


def test_nodes_that_are_tested_together_are_compared_with_each_other_where_most_have_changed() -> None:
    history = _history(dict.fromkeys(range(12), 100.0))
    assert _suspects(CHECK, dict.fromkeys(range(8), 60.0), history) == []  # another driver, say
    assert _suspects(CHECK, {**dict.fromkeys(range(8), 60.0), 3: 30.0}, history) == [3]


def test_without_history_one_that_differs_from_five_others_is_suspect() -> None:
    assert _suspects(CHECK, {**dict.fromkeys(range(6), 100.0), 2: 50.0}, []) == [2]
    assert _suspects(CHECK, {0: 100.0, 1: 50.0}, []) == []


def test_what_is_usual_is_a_median_in_which_more_is_better() -> None:
    history = _history({at: 10.0 + at for at in range(5)})
    assert usual_speed(CHECK, 1, history, 1000.0) == 12.0
    assert usual_speed(SECONDS, 1, history, 1000.0) == 1 / 12.0
    assert usual_speed(CHECK, 1, history[:4], 1000.0) is None


def test_a_check_that_did_not_run_says_nothing() -> None:
    assert cannot_tell(NODES[0], "no answer").verdict is NodeVerdict.CANNOT_TELL
