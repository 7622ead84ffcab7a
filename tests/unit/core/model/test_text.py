"""Numbers with their nouns, and spans of time."""

import pytest

from launcher.core.model.text import count, data_size, seconds_of, span


@pytest.mark.parametrize(
    ("seconds", "said"), [(0.4, "0s"), (59, "59s"), (600, "10m"), (5400, "1h30m"), (172800, "2d"), (190000, "2d4h")]
)
def test_spans_in_words(seconds: float, said: str) -> None:
    assert span(seconds) == said


@pytest.mark.parametrize(("number", "said"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes")])
def test_only_one_is_singular(number: int, said: str) -> None:
    assert count(number, "node") == said


@pytest.mark.parametrize(
    ("size", "said"), [(0, "0 B"), (999, "999 B"), (1200, "1.2 kB"), (1_500_000, "1.5 MB"), (4 * 10**15, "4000.0 TB")]
)
def test_amounts_of_data(size: int, said: str) -> None:
    assert data_size(size) == said


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 90),
        ("1.5h", 5400),
        ("30 m", 1800),
        ("500d", 43_200_000),
        ("12:30:00", 45_000),
        ("", None),
        ("5w", None),
        ("1-12:00:00", 129_600),
        ("2-0:00:05", 172_805),
        ("1-12", None),
        ("-12:00:00", None),
    ],
)
def test_spans_as_people_write_them(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["-5d", "1e3", "inf", "5d5d", "1:60:00", "\u0665d", "9999999999", "5d\n"])
def test_other_text_is_no_span(text: str) -> None:
    assert seconds_of(text) is None
