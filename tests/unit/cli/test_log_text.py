"""Text of logs for people: programs never control a terminal, and no character or secret is torn."""

import re

import pytest

from launcher.cli.output.log_text import BAR_S, LINE_CHARS, MOST_LINES, LogText
from launcher.cli.redact import values_pattern


def shown(*pieces: bytes, secrets: tuple[str, ...] = ()) -> list[str]:
    text = LogText(*values_pattern(secrets))
    return [*(line for piece in pieces for line in text.feed(piece, 0.0)), *text.finish()]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        pytest.param(b"one\ntwo\n", ["one", "two"], id="lines"),
        pytest.param(b"one\n\ntwo", ["one", "", "two"], id="an empty line, and one without an end"),
        pytest.param(b"one\r\ntwo\r\n", ["one", "two"], id="CR LF"),
        pytest.param("é".encode() + b"\n", ["é"], id="UTF-8"),
        pytest.param("é".encode("latin-1") + b"t\n", ["\ufffdt"], id="Latin-1"),
        pytest.param(b"a\x00b\n", ["a\\x00b"], id="NUL"),
        pytest.param("a\u2028b\n".encode(), ["a\\u2028b"], id="a line separator"),
        pytest.param("\ud800\n".encode("utf-8", "surrogatepass"), ["\ufffd" * 3], id="a lone surrogate"),
        pytest.param(b"\x1b[1;31mred\x1b[0m\n", ["red"], id="colours"),
        pytest.param(b"\x1b]0;title\x07text\n", ["text"], id="a title"),
        pytest.param(b"\x1b]52;c;cm0gLXJm\x1b\\text\n", ["text"], id="the clipboard"),
        pytest.param(b"\x1b[2Atext\x1bctext\x1b", ["texttext"], id="cursor up, reset, half a sequence"),
        pytest.param(b"\x1b]0;never ended\nnext\n", ["", "next"], id="a title without an end"),
        pytest.param(b"\r1%\r2%\r100%\ndone\n", ["100%", "done"], id="a bar that ends"),
        pytest.param(b"1%\r2%\r    \rdone\n", ["done"], id="a bar that clears itself"),
    ],
)
def test_lines(data: bytes, lines: list[str]) -> None:
    assert shown(data)[-len(lines) :] == lines
    alone = LogText()
    found = [line for byte in data for line in alone.feed(bytes((byte,)), 0.0)] + alone.finish()
    assert [line for line in found if "%" not in line] == [line for line in lines if "%" not in line]


def test_a_bar_is_shown_every_few_seconds_in_its_last_state() -> None:
    text = LogText()
    lines = [(at, line) for at in range(100) for line in text.feed(f"\r{at}%".encode(), at / 10)]
    assert len(lines) == 2
    assert lines[1][0] - lines[0][0] == BAR_S * 10
    assert text.finish() == ["99%"]


def test_a_line_of_ten_megabytes_is_shown_once_and_cut() -> None:
    text = LogText()
    lines = [line for _ in range(10) for line in text.feed(b"x" * (1 << 20), 0.0)]
    lines += text.feed(b"end\nnext\n", 0.0)
    assert [len(line) for line in lines] == [LINE_CHARS + 4, 4]
    assert lines[1] == "next"


def test_more_lines_than_anybody_reads_are_left_out() -> None:
    lines = LogText().feed(b"a\n" * (MOST_LINES + 5) + b"last\n", 0.0)
    assert (lines[0], lines[-1], len(lines)) == ("... 6 lines left out", "last", MOST_LINES + 1)


@pytest.mark.parametrize("at", range(1, 20))
def test_a_secret_is_blanked_wherever_its_pieces_end(at: int) -> None:
    data = b"it is hunter2-hunter2 indeed\n"
    assert shown(data[:at], data[at:], secrets=("hunter2-hunter2",)) == ["it is <hidden> indeed"]


def test_a_secret_at_the_border_of_a_cut_line_is_blanked() -> None:
    secret = "s3cret-value"
    for before in range(LINE_CHARS - len(secret), LINE_CHARS + 1):
        (line,) = shown(b"." * before + secret.encode() + b"." * 9000, secrets=(secret,))
        assert not re.search("s3c", line)
