"""`checks` of an inventory: programs in files of their own."""

import os
from pathlib import Path

import pytest

from launcher.config.inventory.read import parse_inventory
from launcher.core.model.inventory import Inventory
from launcher.errors import SpecError

TEXT = "checks: {before_return: {script: %s}}\nracks: {r1: {nodes: 'r1-n[1-2]'}}\n"


def read(folder: Path, script: str) -> Inventory:
    return parse_inventory(TEXT % script, folder / "hall.yaml")


def refused(folder: Path, script: str) -> str:
    with pytest.raises(SpecError) as refusal:
        read(folder, script)
    return str(refusal.value.mistakes[0])


def test_a_script_is_read_from_its_file_beside_the_inventory(tmp_path: Path) -> None:
    (tmp_path / "check.sh").write_text("exit 1\n")
    check = read(tmp_path, "check.sh").checks.before_return
    assert check is not None
    assert check.script == "exit 1\n"


@pytest.mark.parametrize("text", ["", "\n \n"])
def test_an_empty_script_is_refused_since_it_would_pass_everywhere(tmp_path: Path, text: str) -> None:
    (tmp_path / "check.sh").write_text(text)
    assert "cannot use `check.sh`: the file is empty" in refused(tmp_path, "check.sh")


def test_a_script_that_is_no_file_of_a_sensible_size_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "cannot use `pipe`: this is not a regular file" in refused(tmp_path, "pipe")
    assert "not a regular file" in refused(tmp_path, "/dev/zero")
    assert "this is a directory" in refused(tmp_path, str(tmp_path))
    (tmp_path / "large").write_bytes(b"#" * 64_001)
    assert "the file is larger than 64 kB: this is not a script" in refused(tmp_path, "large")
