"""Numbers with their nouns, and spans of time."""

import pytest

from launcher.core.model.text import count, span


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0s"), (59, "59s"), (600, "10m"), (5400, "1h30m"), (172800, "2d"), (190000, "2d4h")]
)
def test_spans_in_words(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(("number", "said"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_only_one_is_singular(number: int, said: str) -> None:
    assert count(number, "node") == said
