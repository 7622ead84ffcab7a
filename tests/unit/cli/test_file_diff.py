"""Files that are written or changed with `-o`: what is none is refused, and what stands there is never lost unseen."""

import io
import os
from pathlib import Path

import pytest

from launcher.cli.file_diff import regular_file, write_output
from launcher.errors import SpecError


@pytest.mark.parametrize("name", ["-", "/dev/full", "/dev/stdout", "folder", "pipe"])
def test_what_is_no_file_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SpecError, match="is not a regular file"):
        regular_file(Path(name))


def test_a_file_that_stands_is_changed_with_consent_alone(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "inventory.yaml"
    assert regular_file(out) == out
    write_output("racks: old\n", regular_file(out), yes=False)
    monkeypatch.setattr("sys.stdin", io.StringIO())
    with pytest.raises(SpecError, match="without a terminal"):
        write_output("racks: new\n", regular_file(out), yes=False)
    assert out.read_text() == "racks: old\n"
    assert "-racks: old\n+racks: new\n" in capfd.readouterr().out
