"""Ranges mean what ClusterShell's NodeSet takes them for, which is what operators know."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.core.model.nodeset import expand, fold
from tests.effort import drawn

NodeSet = pytest.importorskip("ClusterShell.NodeSet")


@st.composite
def ranges(draw: st.DrawFn) -> str:
    """`5`, `1-9`, `01-12`, `1-9/2`: ends of one width where they are padded."""
    low = draw(st.integers(0, 30))
    high = draw(st.integers(low, low + 12))
    width = draw(st.integers(1, 3))
    if len(str(low)) != len(str(high)):
        width = draw(st.sampled_from([1, 3]))
    ends = f"{low:0{width}d}-{high:0{width}d}"
    return draw(st.sampled_from([f"{low:0{width}d}", ends, f"{ends}/{draw(st.integers(1, 4))}"]))


brackets = st.lists(ranges(), min_size=1, max_size=3).map(lambda parts: f"[{','.join(parts)}]")
prefixes = st.sampled_from(["n", "-r07-n", "-gpu", "-SH-IDC1-10-"])
# ClusterShell takes no bracket right behind another.
parts = st.builds("{}{}".format, brackets, prefixes) | prefixes
names = st.builds("n{}{}".format, st.lists(parts, max_size=3).map("".join), brackets | st.just(""))
texts = st.lists(names, min_size=1, max_size=3).map(",".join)


@drawn(120)
@given(texts)
def test_a_text_stands_for_the_names_that_clustershell_says(text: str) -> None:
    assert set(expand(text)) == set(NodeSet.expand(text))


@drawn(120)
@given(texts)
def test_clustershell_reads_what_is_folded(text: str) -> None:
    found = expand(text)
    assert set(NodeSet.expand(fold(found))) == set(found)


@pytest.mark.parametrize("text", ["n[01-2]", "n[9-1]", "n[1-9/0]", "n[]", "n[a-c]", "n[1-3", "node[01-010]"])
def test_what_clustershell_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="`"):
        expand(text)
    with pytest.raises(NodeSet.NodeSetException):
        NodeSet.expand(text)
