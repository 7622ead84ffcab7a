"""Commands in processes of their own that have all imports behind them: forked from a process that did nothing else.

A Python process that imports what a command needs takes longer for that than for the command. What is forked has an
environment, a folder, streams and signals of its own, and nothing of an earlier command.

`python -m tests.forked SOCKET` is the process that is forked; it ends with its stdin.
"""

import atexit
import contextlib
import importlib
import json
import os
import pkgutil
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("admission", "cli", "config", "drive", "sim", "store")
NO_STATUS = -1


def run(words: Sequence[str], *, env: Mapping[str, str], folder: Path, timeout: float) -> tuple[int, str, str]:
    """Run a command of ours to its end; return its exit code, or minus the signal that ended it, stdout and stderr.

    TimeoutExpired after so long (s), and it is killed.
    """
    with tempfile.TemporaryDirectory(prefix="nvforked.") as streams, socket.socket(socket.AF_UNIX) as line:
        out, err = Path(streams, "out"), Path(streams, "err")
        line.connect(_parent()[0])
        asked = {"words": words, "env": dict(env), "folder": str(folder), "out": str(out), "err": str(err)}
        line.sendall(json.dumps(asked).encode() + b"\n")
        with line.makefile("r") as answers:
            pid = int(answers.readline())
            line.settimeout(timeout)
            try:
                code = int(answers.readline())
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(list(words), timeout, out.read_bytes(), err.read_bytes()) from None
        return code, out.read_text(), err.read_text()


@cache
def _parent() -> tuple[str, "subprocess.Popen[bytes]"]:
    """The socket of the process that is forked, which is started once; it ends when we do, who hold its stdin."""
    path = str(Path(tempfile.mkdtemp(prefix="nvforked."), "socket"))
    words = [sys.executable, "-m", "tests.forked", path]
    process = subprocess.Popen(words, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return path, process


def _serve(path: str) -> None:
    import launcher

    for package in PACKAGES:
        folder = Path(launcher.__file__).parent / package
        for module in pkgutil.walk_packages([str(folder)], f"launcher.{package}."):
            if not module.name.endswith("__main__"):
                importlib.import_module(module.name)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how those ended that answered
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(path)
        door.listen(64)
        os.write(1, b"ready\n")
        while sys.stdin not in select.select([door, sys.stdin], [], [])[0]:
            line, _ = door.accept()
            if os.fork() == 0:
                door.close()
                _answer(line)
                os._exit(0)
            line.close()
    shutil.rmtree(Path(path).parent)


def _answer(line: socket.socket) -> None:
    """Start the command that is asked for, say its number, and then how it ended."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    with line.makefile("r") as questions:
        asked = json.loads(questions.readline())
    pid = os.fork()
    if pid == 0:
        line.close()
        _command(asked)
    line.sendall(f"{pid}\n".encode())
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # it took too long for who asked
        line.sendall(f"{os.waitstatus_to_exitcode(status)}\n".encode())


def _command(asked: Mapping[str, object]) -> None:
    """Be the command: as one that is executed, but for the imports."""
    code = NO_STATUS
    try:
        os.environ.clear()
        os.environ.update(asked["env"])  # type: ignore[arg-type]
        time.tzset()
        os.chdir(str(asked["folder"]))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        for number, name in ((1, "out"), (2, "err")):
            stream = os.open(str(asked[name]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        words = [str(word) for word in asked["words"]]  # type: ignore[attr-defined]
        sys.argv = ["nvlaunch", *words]
        from launcher.cli.main import main

        code = main(words)
        # As at the end of every interpreter.
        threading._shutdown()  # type: ignore[attr-defined]
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code & 0xFF)


if __name__ == "__main__":
    _serve(sys.argv[1])
