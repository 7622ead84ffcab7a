"""Files of `KEY=VALUE` lines."""

from pathlib import Path

import pytest

from launcher.config.task.env_file import read_env_file
from launcher.errors import SpecError


def read(folder: Path, text: str) -> dict[str, str]:
    path = folder / "vars.env"
    path.write_text(text)
    return read_env_file(path)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("A=1", "1"),
        ("export A=1", "1"),
        ("  A = 1  ", "1"),
        ("A=", ""),
        ("A=a b # comment", "a b"),
        ("A=a#b", "a#b"),
        ("A=#", ""),
        ("A='a # b' # comment", "a # b"),
        (r'A="a\n\"b\" \$c \d"', 'a\n"b" $c \\d'),
        (r"A='a\n'", r"a\n"),
        ("A=${HOME}", "${HOME}"),
        ("A=a=b", "a=b"),
        ("A=1\nA=2", "2"),
        ("A=a\u2028b\r\n", "a\u2028b"),
        ("\ufeff# comment\n\nA=1", "1"),
    ],
)
def test_line_has_this_value(tmp_path: Path, line: str, value: str) -> None:
    assert read(tmp_path, line) == {"A": value}


def test_wrong_lines_are_reported_by_number_and_not_shown(tmp_path: Path) -> None:
    text = 'A=1\nhunter2\n1B=hunter2\nC=\'hunter2\nD="hunter2" more\nB-C=hunter2\n'
    with pytest.raises(SpecError) as refusal:
        read(tmp_path, text)
    assert [mistake.line for mistake in refusal.value.mistakes] == [2, 3, 4, 5, 6]
    assert "hunter2" not in "".join(map(str, refusal.value.mistakes))
