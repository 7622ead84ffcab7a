"""Files that are not text are refused with one message; byte order marks and other line ends are accepted."""

from pathlib import Path

import pytest

from launcher.config.task.read import read_task
from launcher.config.yaml import text_file
from launcher.errors import SpecError


def complaint(path: Path) -> str:
    with pytest.raises(SpecError) as refusal:
        read_task(path)
    (mistake,) = refusal.value.mistakes
    return str(mistake).replace(str(path.parent), "DIR")


def written(folder: Path, data: bytes) -> Path:
    path = folder / "task.yaml"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"\x7fELF\x02\x01\x00\x00", "DIR/task.yaml: this is a binary file, not a task file"),
        (b"\x1f\x8b\x08\x00", "DIR/task.yaml: this is a binary file, or its encoding is not UTF-8"),
        ("run: é".encode("latin-1"), "DIR/task.yaml: byte 0xe9 on line 1 is not UTF-8 text"),
        ("run: a".encode("utf-16"), "DIR/task.yaml: this is a binary file, or its encoding is not UTF-8"),
        (
            b"a: b\nrun: \x07\n",
            "DIR/task.yaml:2:6: control character U+0007 is not allowed\n  hint: remove the character",
        ),
        (b"# \n" * 1_700_000, "DIR/task.yaml: the file is larger than 5 MB: this is not a task file"),
    ],
    ids=["elf", "gzip", "latin-1", "utf-16", "bell", "too large"],
)
def test_file_that_cannot_be_a_task_is_refused(tmp_path: Path, data: bytes, said: str) -> None:
    assert complaint(written(tmp_path, data)) == said


def test_missing_file_is_reported_with_a_similar_name(tmp_path: Path) -> None:
    assert complaint(tmp_path / "tsk.yaml") == "DIR/tsk.yaml: no such file"
    written(tmp_path, b"run: a")
    assert complaint(tmp_path / "tsk.yaml").endswith("hint: did you mean `DIR/task.yaml`?")


def test_folder_and_impossible_file_name_are_refused(tmp_path: Path) -> None:
    assert complaint(tmp_path).endswith("this is a directory, not a file")
    assert "cannot be read" in complaint(tmp_path / "a\0b")
    assert "cannot be read: file name too long" in complaint(tmp_path / ("a" * 300))


@pytest.mark.parametrize("data", [b"\xef\xbb\xbfrun: echo\r\nname: a\r\n", b"run: echo\rname: a\r"], ids=["bom", "cr"])
def test_byte_order_mark_and_other_line_ends_are_accepted(tmp_path: Path, data: bytes) -> None:
    assert read_task(written(tmp_path, data)).task.groups[0].run == "echo"


def test_carriage_returns_are_removed_from_scripts(tmp_path: Path) -> None:
    path = written(tmp_path, b"run: |\r\n  echo a\r\n  echo b\r\n")
    assert read_task(path).task.groups[0].run == "echo a\necho b\n"


def test_deep_nesting_in_a_long_file_is_refused(tmp_path: Path) -> None:
    assert "nest" in complaint(written(tmp_path, b"run: " + b"[" * 1_000_000))


def test_position_counts_lines_and_columns_from_one() -> None:
    assert (text_file.mark_at("ab\ncd", 4).line, text_file.mark_at("ab\ncd", 4).column) == (2, 2)
