"""Command lines of `tests/corpus/cli`: exit code, stdout and stderr of each, together.

A file holds one session in one home: `$ words`, then what came of it. With UPDATE_SNAPSHOTS=1 the files are written
afresh; read the difference before you keep it. None of the commands starts a controller.
"""

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from launcher.cli.main import main

CORPUS = Path(__file__).parents[2] / "corpus" / "cli"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "work"
    shutil.copytree(CORPUS / "files", folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("NVLAUNCH_HOME", str(tmp_path / "home"))
    for name in ("NVLAUNCH_INVENTORY", "HF_TOKEN", "WANDB_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def replay(commands: list[str], place: Path, capture: pytest.CaptureFixture[str]) -> Iterator[str]:
    for command in commands:
        code = main(shlex.split(command))
        out, err = capture.readouterr()
        yield f"$ {command}"
        yield f"exit {code}"
        for stream, text in (("stdout", out), ("stderr", err)):
            for line in text.splitlines():
                yield re.sub(r"\d+\.\d+\.\d+$", "VERSION", f"{stream} | {line}".replace(str(place), "PLACE").rstrip())
        yield ""


@pytest.mark.parametrize("file", sorted(CORPUS.glob("*.txt")), ids=lambda file: file.stem)
def test_session(file: Path, place: Path, capfd: pytest.CaptureFixture[str]) -> None:
    commands = [line[2:] for line in file.read_text().splitlines() if line.startswith("$ ")]
    assert commands
    happened = "\n".join(replay(commands, place, capfd))
    if os.environ.get("UPDATE_SNAPSHOTS"):
        file.write_text(happened)
    assert happened == file.read_text()
