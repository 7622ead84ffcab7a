"""Names in brackets: what people write in an inventory, and what they read in a message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.nodeset import MAX_NAMES, expand, fold, fold_messages, natural, repeated
from tests.effort import drawn


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param("r07-n[01-03]", ["r07-n01", "r07-n02", "r07-n03"], id="padded range"),
        pytest.param("n[8-11]", ["n8", "n9", "n10", "n11"], id="unpadded range grows a digit"),
        pytest.param("n[098-101]", ["n098", "n099", "n100", "n101"], id="padding over a power of ten"),
        pytest.param("n[1-9/2]", ["n1", "n3", "n5", "n7", "n9"], id="step"),
        pytest.param("n[01-08/3]", ["n01", "n04", "n07"], id="step with padding"),
        pytest.param("n[1,3-4,7]", ["n1", "n3", "n4", "n7"], id="ranges and numbers"),
        pytest.param("r[1-2]n[1-2]", ["r1n1", "r1n2", "r2n1", "r2n2"], id="cross product"),
        pytest.param("r[1-2]-a", ["r1-a", "r2-a"], id="text after the range"),
        pytest.param("head, n[1-2] ,x", ["head", "n1", "n2", "x"], id="list with spaces"),
        pytest.param("n[2-3],n1,n[1-3]", ["n2", "n3", "n1"], id="each once, in the order written"),
        pytest.param("n[5]", ["n5"], id="one number"),
        pytest.param("n[0-0]", ["n0"], id="zero is not padding"),
        pytest.param("", [], id="nothing"),
        pytest.param("gpu-node.example.com", ["gpu-node.example.com"], id="plain name"),
    ],
)
def test_expand_answers_the_names_in_order(text: str, names: list[str]) -> None:
    assert list(expand(text)) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("n[01-2]", "`[01-2]` begins and ends with numbers of different length", id="padding differs"),
        pytest.param(
            "n[1-02]", "`[1-02]` begins and ends with numbers of different length", id="padding differs at the end"
        ),
        pytest.param("n[9-1]", "`[9-1]` ends before it begins", id="reversed"),
        pytest.param("n[1-9/0]", "`[1-9/0]` has a step of zero", id="step of zero"),
        pytest.param("n[]", "`[]` is not a number or a range of numbers", id="empty brackets"),
        pytest.param("n[a-c]", "`[a-c]` is not a number or a range of numbers", id="letters"),
        pytest.param("n[-1]", "`[-1]` is not a number or a range of numbers", id="half a range"),
        pytest.param("n[\u0661]", "`[\u0661]` is not a number or a range of numbers", id="digits of another script"),
        pytest.param("n[1-3", "`n[1-3` has an unbalanced bracket", id="open"),
        pytest.param("n1-3]", "`n1-3]` has an unbalanced bracket", id="closed"),
        pytest.param("n[[1]]", "`n[[1]]` has an unbalanced bracket", id="nested"),
        pytest.param("a,,b", "`a,,b` has an empty name or a space inside a name", id="empty name"),
        pytest.param("a,", "`a,` has an empty name or a space inside a name", id="comma at the end"),
        pytest.param("a b", "`a b` has an empty name or a space inside a name", id="space"),
        pytest.param(
            "n[0-999999999]", f"`n[0-999999999]` expands to more than {MAX_NAMES} names", id="more than fits anywhere"
        ),
        pytest.param(
            "[0-999][0-999][0-999]", f"`[0-999][0-999][0-999]` expands to more than {MAX_NAMES} names", id="product"
        ),
        pytest.param(
            "n[1-9999999999999999999]", "`[1-9999999999999999999]` has a number of more than 18 digits", id="19 digits"
        ),
    ],
)
def test_expand_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        expand(text)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "twice"),
    [("n[1-3]", ()), ("n1,n1", ("n1",)), ("n[1-2,2]", ("n2",)), ("n[1-2],n[2-3]", ("n2",)), ("n1,n01", ())],
)
def test_names_that_are_written_twice(text: str, twice: tuple[str, ...]) -> None:
    assert repeated(text) == twice


def test_many_ranges_are_counted_together() -> None:
    half = f"a[1-{MAX_NAMES // 2}]"
    assert len(expand(f"{half},b[1-{MAX_NAMES // 2}]")) == MAX_NAMES
    with pytest.raises(ValueError, match="more than"):
        expand(f"{half},b[1-{MAX_NAMES // 2}],c")


@pytest.mark.parametrize(
    ("names", "text"),
    [
        pytest.param(expand("r07-n[01-15,17]"), "r07-n[01-15,17]", id="hole"),
        pytest.param(["r07-n16"], "r07-n16", id="one name has no brackets"),
        pytest.param(expand("r[07-08]-n[01-16]"), "r[07-08]-n[01-16]", id="two racks alike"),
        pytest.param(["r2-n1", "r10-n1", "r10-n2"], "r2-n1,r10-n[1-2]", id="racks that differ, in natural order"),
        pytest.param(["n10", "n9", "n8"], "n[8-10]", id="unpadded"),
        pytest.param(["n08", "n8", "n9", "n09", "n10"], "n[08-10,8-9]", id="padded beside unpadded"),
        pytest.param(["n1", "n1"], "n1", id="twice"),
        pytest.param(["head", "n1"], "head,n1", id="no number"),
        pytest.param([], "", id="nothing"),
    ],
)
def test_fold_is_what_an_operator_would_write(names: list[str], text: str) -> None:
    folded = fold(names)
    assert set(expand(folded)) == set(names)
    assert folded == text


_NAMES = st.from_regex(r"[a-c](-?[0-9]{1,3}){0,3}", fullmatch=True)


@drawn(150)
@given(st.lists(_NAMES, max_size=15))
def test_a_folded_text_stands_for_exactly_its_names(names: list[str]) -> None:
    expanded = expand(fold(names))
    assert sorted(expanded) == sorted(set(names))


def test_natural_order_counts() -> None:
    assert sorted(["r10", "r2", "r02", "r1", "rack"], key=natural) == ["r1", "r02", "r2", "r10", "rack"]


ALIKE = {
    "same": ([("n1", "ok"), ("n2", "ok")], [("n[1-2]", "ok")]),
    "own-name": (
        [("n1", "`n1` does not resolve"), ("n2", "`n2` does not resolve"), ("n10", "ok")],
        [("n[1-2]", "`NODE` does not resolve"), ("n10", "ok")],
    ),
    "one-keeps-its-name": ([("n1", "`n1` does not resolve")], [("n1", "`n1` does not resolve")]),
    "longer-names-are-others": (
        [("n1", "n10 is not n1"), ("n2", "n10 is not n2")],
        [("n[1-2]", "n10 is not NODE")],
    ),
    "of-another": ([("n1", "sees n2"), ("n2", "sees n1")], [("n1", "sees n2"), ("n2", "sees n1")]),
}


@pytest.mark.parametrize(("said", "folded"), ALIKE.values(), ids=ALIKE)
def test_what_is_said_alike_of_several_is_said_once(said: list[tuple[str, str]], folded: list[tuple[str, str]]) -> None:
    assert list(fold_messages(said)) == folded
