"""A command of `nvlaunch exec` beside a rank.

It has the rank's variables and folder, without its secrets. It ends with its caller, after its time, or with the agent,
whichever comes first; everything that it started ends with it.

What it writes is sent in frames on one stream, so that its end differs from a lost connection and its two streams keep
their order: a letter, a length, a line end, and so many bytes. `o` and `e` are stdout and stderr, `x` the exit status;
`t` says that its time was over, `g` that the run has left the node.
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
from typing import Any, cast

from . import agent_environment, agent_folders, environment, files, login, logs, procs, start_files
from .children import SPAWN
from .containers.engines import EngineError
from .containers.enter import Place
from .containers.keep import Containers, specs
from .protocol import EnvironmentReply
from .protocol_containers import ContainerSpec
from .protocol_files import AgentSpec, CommandRequest, RankSpec

PR_SET_CHILD_SUBREAPER = 36
PART = 1 << 16
READER = 1
FOR_EVER_S = 14 * 24 * 3600.0
NOT_FOUND = 127
"""The exit status of a shell for a program that does not exist."""


class ReaderGoneError(Exception):
    """Nobody reads what the command writes any more."""


def main(argv: list[str]) -> int:
    """Run the command on stdin, `run FOLDER`, or end it, `stop FOLDER TOKEN`."""
    folder = Path(argv[1]).absolute()
    agent = files.agent_spec(folder)
    if argv[0] == "stop":
        left = procs.kill(scope(agent, argv[2])) if agent else []
        if agent and not left:
            forget(agent_folders.memory(Path(agent["scratch"])), argv[2])
        print(json.dumps({"ok": not left, "left": left}))
        return 0
    with contextlib.suppress(ReaderGoneError):
        run(folder, agent, cast("CommandRequest", json.load(sys.stdin)))
    return 0


def scope(agent: AgentSpec, token: str) -> procs.Scope:
    """Return the scope of one command of a run."""
    return procs.Scope(run=agent["run"], place=agent["place"], level="rank", member=f"@{token}", attempt=1)


def mark(agent: AgentSpec, token: str) -> str:
    """Return the mark of a command and its children.

    A kill of the node covers it, one of a rank does not.
    """
    return f"{agent['run']}:{agent['place']}:0:@{token}:1"


def variables(folder: Path, label: str, given: dict[str, str], base: dict[str, str]) -> dict[str, str]:
    """Return the variables of a rank in its newest attempt, without its secrets.

    `given` where it never began.
    """
    own = folder / "ranks" / label
    found: Any = files.read(own / str(logs.newest(own)) / "spec.json") if label else None
    spec = cast("RankSpec | None", found)
    if spec is None:
        return {**base, **environment.lists_in_files(folder, given)}
    return environment.of_rank(folder, spec, base, {})


def inside(folder: Path, label: str) -> ContainerSpec | None:
    """Return the container that a command beside a rank runs in; None where its group has none.

    Without a rank, that of the first group here.
    """
    found = specs(folder)
    group = label.rpartition("-")[0]
    return next((one for one in found if not label or one["group"] == group), None)


def place(folder: Path) -> Path:
    """Return the working folder of ranks.

    The workdir, or the run's folder before there is one.
    """
    return folder / "workdir" if (folder / "workdir").is_dir() else folder


def run(folder: Path, agent: AgentSpec | None, request: CommandRequest) -> None:
    """Run a command until it ends, its time is over, or the agent ends."""
    try:
        if agent is None:
            raise FileNotFoundError(folder / "agent.json")
        given = agent_environment.ask(agent)
        life = os.pidfd_open(given["agent"])
    except (OSError, ValueError):
        _frame(b"g", b"")
        return
    try:
        _beside(folder, agent, request, given, life)
    finally:
        forget(Path(given["secrets"]).parent, request["token"])


def _beside(folder: Path, agent: AgentSpec, request: CommandRequest, given: EnvironmentReply, life: int) -> None:
    """Run a command beside an agent that lives, whose process `life` is."""
    marked = mark(agent, request["token"])
    start = start_files.of_agent(given, marked)
    if start.trouble:
        _frame(b"e", f"nvlaunch: {start.trouble}\n".encode())
    container = inside(folder, request["label"])
    env = variables(folder, request["label"], request["env"], {} if container else start.env)
    env[environment.MARK] = marked
    os.chdir(place(folder))
    if container is not None:
        try:
            request["argv"], env = entered(
                folder, container, given["base"], Path(given["secrets"]).parent, env, request
            )
        except (EngineError, OSError) as error:
            _frame(b"e", f"nvlaunch: {error}\n".encode())
            _frame(b"x", b"%d" % NOT_FOUND)
            return
    elif not shutil.which(request["argv"][0], path=env["PATH"]):
        _frame(b"e", f"`{request['argv'][0]}` is not found on this node\n".encode())
        _frame(b"x", b"%d" % NOT_FOUND)
        return
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    argv = [sys.executable, "-EsS", str(SPAWN), str(os.getpid()), f"{start.umask:o}", ".", *request["argv"]]
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
            end = _pass_on(child, life, request["timeout"])
        finally:
            procs.kill(scope(agent, request["token"]), os.getpid(), grace=1.0 if end == b"t" else 0.0)
            code = child.wait()
        _frame(end, str(code if code >= 0 else 128 - code).encode() if end == b"x" else b"")


def entered(
    folder: Path,
    spec: ContainerSpec,
    base: dict[str, str],
    memory: Path,
    env: dict[str, str],
    request: CommandRequest,
    *,
    terminal: bool = False,
) -> tuple[list[str], dict[str, str]]:
    """Return the engine's command for a command in a container, and the variables of the engine's client."""
    agent = files.agent_spec(folder)
    if agent is None:
        raise EngineError("the run has left the node")
    state = Containers(folder, agent, base).running(spec, make=False)
    own = _own(memory, request["token"])
    own.mkdir(mode=0o700, exist_ok=True)
    where = Place(folder, spec, state, base)
    argv = where.command(own, env, request["argv"], umask=login.own_umask(), terminal=terminal)
    return argv, {**where.client_env, environment.MARK: env[environment.MARK]}


def _own(memory: Path, token: str) -> Path:
    """Return the folder for the files of a command in a container."""
    return memory / f"exec.{token}"


def forget(memory: Path, token: str) -> None:
    """Remove what a command in a container needed, once it has ended."""
    shutil.rmtree(_own(memory, token), ignore_errors=True)


def _pass_on(child: "subprocess.Popen[bytes]", life: int, timeout: float | None) -> bytes:
    """Send what a command writes until one of its ends; return that letter."""
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
    """Send what was written already.

    A process that the command left behind may hold its streams open for ever.
    """
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
