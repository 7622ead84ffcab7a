"""Plays the pictures of a page: a folder to type commands in, and what they write."""

import contextlib
import itertools
import json
import os
import pwd
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from launcher.cli.main import main
from launcher.store.status_reads import StatusReader
from tests.docs.markdown import ROOT, Block
from tests.docs.sessions import SESSIONS, Session

FILES = Path(__file__).parent / "files"
AMPLE_S = 60.0
WHOEVER = "ana@dev"
# The time in front of a line: at infinite speed it is of no imaginary clock.
_TIME = re.compile(r"^(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d +")
# What differs from one time to the next: dates, times, ids of runs, how long ago, numbers of processes, room in tables.
_MASKS = (
    (re.compile(r"\d{4}-\d\d-\d\d"), "DATE"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "TIME"),
    (re.compile(r"\bDATE TIME\b"), "TIME"),  # a time of another day has its date
    (re.compile(r"(?<=[a-z0-9]-)[a-z2-7]{6}\b"), "RUNID"),
    (re.compile(r"\b\d+(\.\d+)?(s|m\d\ds|h\d\dm|d\d\dh)\b"), "AGO"),
    (re.compile(r"(?<= for )\d+ s\b"), "AGO"),
    (re.compile(r"\b(process|pid) \d+"), "PROCESS"),
    (re.compile(r"\b\d{10}\.\d+\b"), "INSTANT"),
    (re.compile(r" {2,}"), "  "),
    (re.compile(r" +$"), ""),
)


# On real hosts a launch says how far it is as often as something changes.
_ON_RIG = (
    (re.compile(r"^TIME (starting|stopping): .*"), ""),
    (re.compile(r"^(Output of rank |rank \d+ of \d+ on ).*"), ""),  # comes when the rank writes, before or after others
    (re.compile(r"in \d+\.\d s; slowest: \S+"), "in N s"),
    (re.compile(r"(step|elapsed) \d+|\b\d+ B\b"), "N"),
)


def masked(lines: Sequence[str], *, rig: bool = False) -> list[str]:
    """Lines without what differs from one time to the next."""
    if not rig:
        return [_masked(line, _MASKS) for line in lines]
    kept = [line for line in (_masked(line, (*_MASKS, *_ON_RIG)) for line in lines) if line]
    # Ranks that answer together do so in any order.
    parts = ((ranks, list(part)) for ranks, part in itertools.groupby(kept, lambda line: line.startswith("[")))
    return [line for ranks, part in parts for line in (sorted(part) if ranks else part)]


def _masked(line: str, masks: Iterable[tuple[re.Pattern[str], str]]) -> str:
    for pattern, word in masks:
        line = pattern.sub(word, line)
    return line


def play(blocks: Sequence[Block], files: Mapping[str, str], folder: Path) -> list[list[str]]:
    """The lines of each block as they come out now, each session in a folder and a home of its own.

    `files` are those that the page shows.
    """
    stages: dict[str, Stage] = {}
    try:
        return [_stage(stages, block.marker["session"], files, folder).play(block) for block in blocks]
    finally:
        for stage in stages.values():
            stage.close()


def _stage(stages: dict[str, "Stage"], name: str, files: Mapping[str, str], folder: Path) -> "Stage":
    if name not in stages:
        session = SESSIONS[name]
        if session.rig:
            from tests.docs.rig import RigStage

            stages[name] = RigStage(folder / name, session, files)
        else:
            stages[name] = Stage(folder / name, session, files)
        stages[name].begin()
    return stages[name]


class Stage:
    """A folder with a copy of the examples, of our files and of the page's, and a home for what is started in it."""

    def __init__(self, folder: Path, session: Session, files: Mapping[str, str]) -> None:
        self.folder = folder / "work"
        self.home = folder / "home"
        self.session = session
        shutil.copytree(FILES, self.folder)
        shutil.copytree(ROOT / "examples", self.folder / "examples")
        for name, text in files.items():
            (self.folder / name).write_text(text)
        for name, old, new in session.changes:
            path = self.folder / name
            assert old in path.read_text(), f"{name} has no `{old}` any more"
            path.write_text(path.read_text().replace(old, new))

    def environment(self) -> Mapping[str, str]:
        """What is set for commands beside what is set here; nothing of ours from outside."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("NVLAUNCH_", "_NVLAUNCH"))}
        return {**kept, "NVLAUNCH_HOME": str(self.home), "COLUMNS": "110", "LOGNAME": "ana", "TZ": "UTC"}

    def shown(self) -> Mapping[str, str]:
        """What stands for paths of this machine in a picture."""
        whoever = f"{pwd.getpwuid(os.getuid()).pw_name}@{socket.gethostname()}"
        return {str(self.home): "~/.nvlaunch", f"{self.folder}/": "", str(ROOT): "~/nvlaunch", whoever: WHOEVER}

    def begin(self) -> None:
        """Run the commands that are not shown."""
        for command in self.session.before:
            with self._here():
                code, text, _ = run(command)
            assert code == 0, f"`{command}` ends with {code}: {text}"

    def play(self, block: Block) -> list[str]:
        """The lines of a block as they come out now."""
        if hidden := block.marker.get("hidden"):
            self.lines(hidden)
        if until := block.marker.get("until"):
            self._wait(*until.split())
        out: list[str] = []
        for command in (line.removeprefix("$ ") for line in block.lines if line.startswith("$ ")):
            lines = self.lines(command)
            assert lines, f"`{command}` writes nothing"
            assert not any(line.startswith("Traceback ") for line in lines), "\n".join((command, *lines))
            out += [*([""] if out else []), f"$ {command}", *lines]
        return [_TIME.sub("", line) for line in out] if block.marker.get("times") == "hidden" else out

    def lines(self, command: str) -> list[str]:
        with self._here():
            text = self.output(command)
        for real, shown in self.shown().items():
            text = _replaced(text, real, shown)
        return [line.rstrip() for line in text.rstrip("\n").splitlines()]

    def output(self, command: str) -> str:
        """What a command line writes: both streams as they come, or stdout through what it is piped to."""
        first, pipe, rest = command.partition(" | ")
        if first.startswith("python "):
            return shell(f"PYTHONPATH={ROOT} {sys.executable}{command.removeprefix('python')}")
        if not first.startswith("nvlaunch "):
            return shell(command)
        if not pipe:
            return run(first)[1]
        _, out, err = run(first, apart=True)
        return err + shell(rest, out)

    def _wait(self, name: str, state: str, attempt: str = "1") -> None:
        deadline = time.monotonic() + AMPLE_S
        while not self._there(name, state, int(attempt)):
            assert time.monotonic() < deadline, f"`{name}` is never {state} in attempt {attempt}"
            time.sleep(0.05)

    def _there(self, name: str, state: str, attempt: int) -> bool:
        reader = StatusReader(self.home)  # what `status` shows, without the work of a command
        seen = json.loads(reader.find(name).snapshot) if name in reader.names() else {}
        return bool(seen) and seen["state"] == state and seen["attempt"] >= attempt

    @contextmanager
    def _here(self) -> Iterator[None]:
        before, where = dict(os.environ), Path.cwd()
        environment = self.environment()
        os.environ.clear()
        os.environ.update(environment)
        time.tzset()
        os.chdir(self.folder)
        try:
            yield
        finally:
            os.chdir(where)
            os.environ.clear()
            os.environ.update(before)

    def close(self) -> None:
        """End the controllers that were begun: they have the home in their command line."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.home).encode() in (entry / "cmdline").read_bytes():
                    os.kill(int(entry.name), signal.SIGKILL)


def _replaced(text: str, real: str, shown: str) -> str:
    """A text with one thing for another; a column of a table keeps its width where there is room."""
    text = re.sub(re.escape(real) + "(?=  )( +)", lambda found: f"{shown}  ".ljust(len(found[0])), text)
    return text.replace(real, shown)


def run(command: str, *, apart: bool = False) -> tuple[int, str, str]:
    """How a command of ours ends and what it writes, run in this process, which spares starting another.

    Both streams are in the first text, unless they are to be `apart`.
    """
    folder = Path(os.environ["NVLAUNCH_HOME"]).parent
    paths = folder / "stdout", folder / ("stderr" if apart else "stdout")
    kept = os.dup(1), os.dup(2)
    try:
        for number, path in enumerate(paths, start=1):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(handle, number)
            os.close(handle)
        code = main(shlex.split(command)[1:])
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        for number, before in enumerate(kept, start=1):
            os.dup2(before, number)
            os.close(before)
    texts = [path.read_text() for path in paths]
    for path in set(paths):
        path.unlink()
    return code, texts[0], texts[1]


def shell(command: str, text: str = "") -> str:
    """What a line of a shell writes that reads a text."""
    done = subprocess.run(["bash", "-c", command], input=text, capture_output=True, text=True, timeout=AMPLE_S)
    return done.stdout + done.stderr
