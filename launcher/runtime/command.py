"""A command of a person's beside a rank: with the rank's variables and folder, and without its secrets.

It lives no longer than who asked for it, than its time, or than the agent: whichever ends first takes all that the
command started with it. What it writes travels in frames on one stream, so that its end is told apart from a lost
connection, and its two streams keep their order: a letter, a length, a line end, and so many bytes. `o` and `e` are
stdout and stderr; `x` is its exit status; `t` says that its time was over, and `g` that the run has left the node.
"""

import contextlib
import ctypes
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from . import environment, files, logs, procs, rpc
from .children import SPAWN

PR_SET_CHILD_SUBREAPER = 36
PART = 1 << 16
READER = 1
FOR_EVER_S = 14 * 24 * 3600.0
NOT_FOUND = 127
"""What a shell says of a program that does not exist."""


class ReaderGoneError(Exception):
    """Nobody reads what the command writes any more."""


def main(argv: list[str]) -> int:
    """`run FOLDER` takes a command from stdin and runs it; `stop FOLDER TOKEN` ends it from outside."""
    folder = Path(argv[1]).absolute()
    agent = files.read(folder / "agent.json") or {}
    if argv[0] == "stop":
        left = procs.kill(scope(agent, argv[2])) if agent else []
        print(json.dumps({"ok": not left, "left": left}))
        return 0
    with contextlib.suppress(ReaderGoneError):
        run(folder, agent, json.load(sys.stdin))
    return 0


def scope(agent: dict[str, Any], token: str) -> procs.Scope:
    """Return the scope of one command of a run."""
    return procs.Scope(run=agent["run"], place=agent["place"], level="rank", member=f"@{token}", attempt=1)


def mark(agent: dict[str, Any], token: str) -> str:
    """Return what a command and its children carry: a fence of the node ends them, a new attempt does not."""
    return f"{agent['run']}:{agent['place']}:0:@{token}:1"


def variables(folder: Path, label: str, given: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    """Return what a rank sees, as of its newest attempt; where it never began, what is given."""
    own = folder / "ranks" / label
    spec = files.read(own / str(logs.newest(own)) / "spec.json") if label else None
    return {**base, **(environment.whole(folder, spec["variables"]) if spec else given)}


def place(folder: Path) -> Path:
    """Return where ranks run: the workdir, or the run's folder before there is one."""
    return folder / "workdir" if (folder / "workdir").is_dir() else folder


def run(folder: Path, agent: dict[str, Any], asked: dict[str, Any]) -> None:
    """Run a command to its end, or to one of the ends that others make."""
    try:
        given = rpc.ask(Path(agent["socket"]), {"op": "environment"}, timeout=10)
        life = os.pidfd_open(given["agent"])
    except (OSError, KeyError, ValueError):
        _frame(b"g", b"")
        return
    env = variables(folder, asked["label"], asked["env"], given["base"])
    env[procs.MARK] = mark(agent, asked["token"])
    os.chdir(place(folder))
    if not shutil.which(asked["argv"][0], path=env["PATH"]):
        _frame(b"e", f"`{asked['argv'][0]}` is not found here\n".encode())
        _frame(b"x", b"%d" % NOT_FOUND)
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    argv = [sys.executable, "-EsS", str(SPAWN), str(os.getpid()), ".", *asked["argv"]]
    with subprocess.Popen(
        argv,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        end = b"g"
        try:
            end = _pass_on(child, life, asked["timeout"])
        finally:
            procs.kill(scope(agent, asked["token"]), os.getpid(), grace=1.0 if end == b"t" else 0.0)
            code = child.wait()
        _frame(end, str(code if code >= 0 else 128 - code).encode() if end == b"x" else b"")


def _pass_on(child: "subprocess.Popen[bytes]", life: int, timeout: float | None) -> bytes:
    """Pass on what a command writes until it ends, its time is over, or the agent ends; returns which."""
    assert child.stdout
    assert child.stderr
    sources = {child.stdout.fileno(): b"o", child.stderr.fileno(): b"e"}
    ended = os.pidfd_open(child.pid)
    poll = select.poll()
    for handle in (*sources, life, ended):
        poll.register(handle, select.POLLIN)
    poll.register(READER, 0)
    deadline = time.monotonic() + (timeout or FOR_EVER_S)
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready = dict(poll.poll(left * 1000))
        if READER in ready:
            raise ReaderGoneError
        for handle, kind in sources.items():
            if handle in ready and not _part(handle, kind):
                poll.unregister(handle)
        if life in ready:
            return b"g"
        if ended in ready:
            _rest(child)
            return b"x"
        if left == 0.0:
            return b"t"


def _rest(child: "subprocess.Popen[bytes]") -> None:
    """Pass on what was written already; whoever the command left behind may hold its streams open for ever."""
    for stream, kind in ((child.stdout, b"o"), (child.stderr, b"e")):
        if stream and not stream.closed:
            os.set_blocking(stream.fileno(), False)
            with contextlib.suppress(BlockingIOError):
                while _part(stream.fileno(), kind):
                    pass


def _part(handle: int, kind: bytes) -> bool:
    part = os.read(handle, PART)
    if part:
        _frame(kind, part)
    return bool(part)


def _frame(kind: bytes, data: bytes) -> None:
    whole = b"%s%d\n%s" % (kind, len(data), data)
    try:
        while whole:
            whole = whole[os.write(READER, whole) :]
    except OSError:
        raise ReaderGoneError from None
