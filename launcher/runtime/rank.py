"""The parent of a rank's script.

It gives the script its environment, waits for it, and writes down how it ended. It outlives the actor that started it,
so that no exit is lost. It does not outlive the agent, since nobody else holds the node's lease; nor does its rank live
beyond the deadline that the agent published last, should the agent be stopped and unable to end it (`deadline.py`). It
is a subreaper: whatever the script leaves behind stays its descendant.
"""

import contextlib
import ctypes
import os
import select
import signal
import socket
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import cast

from . import environment, files, mounts, node_fault, procs, ranks, readiness, rpc, start_files
from .containers.engines import EngineError
from .containers.keep import spec_of
from .deadline import Deadline, now
from .protocol import PROTOCOL, EnvironmentReply
from .protocol_files import EndedRequest, EnvironmentRequest, NodeFault, RankExitFile, RankSpec, RankStateFile
from .rank_script import HostScript, InnerScript, RankScript, start_inside
from .spawn import PR_SET_PDEATHSIG
from .start_files import StartFiles

BEGUN_TWICE = 3
REFUSED = 4
PR_SET_CHILD_SUBREAPER = 36
LOOK_S = 1.0
TELL_S = 10.0
SOON_S = 0.05
"""Seconds between looks at a container whose program has just begun, or has processes left after its end."""
LATE_S = 0.5
"""Seconds beyond the deadline in which an agent may stop a rank itself."""


def main(argv: list[str]) -> int:
    """Run one rank to its end: `rank FOLDER LABEL ATTEMPT`.

    Return 3 where this attempt has begun before, 4 where it was killed.
    """
    folder = Path(argv[0])
    own = folder / "ranks" / argv[1] / argv[2]
    spec = cast("RankSpec", files.read(own / "spec.json"))
    agent = files.agent_spec(folder)
    if agent is None:
        return REFUSED
    generation = int(os.environ[environment.MARK].split(":")[2])
    request: EnvironmentRequest = {
        "op": "environment",
        "protocol": PROTOCOL,
        "member": spec["member"],
        "generation": generation,
        "attempt": spec["attempt"],
    }
    given = cast("EnvironmentReply", rpc.ask(Path(agent["socket"]), request, timeout=10))
    if not given["ok"]:
        print(given.get("message"), file=sys.stderr)
        return REFUSED
    os.umask(0o077)
    me = procs.find(os.getpid())
    state: RankStateFile = {
        "pid": os.getpid(),
        "start": me.start if me else 0,
        "member": spec["member"],
        "gang": spec["gang"],
        "attempt": spec["attempt"],
    }
    if not files.create(own / "state.json", state):
        return BEGUN_TWICE
    start = start_files.of_agent(given, os.environ[environment.MARK])
    if start.trouble:
        with (own / "log").open("a") as log:
            log.write(f"nvlaunch: {start.trouble}\n")
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # A handler, not SIG_IGN: the script would inherit that. Our end is the script's end.
        signal.signal(number, lambda *_: None)
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    if spec_of(folder, spec["variables"]["group"]):  # no kernel ends a container's program with its parent: we do
        libc.prctl(PR_SET_PDEATHSIG, 0, 0, 0, 0)
    stopped = (own / ranks.STOPPING).exists()  # while start files were read
    scope = replace(procs.of_spec(agent), level="rank", member=spec["member"], attempt=spec["attempt"])
    try:
        script = None if stopped else _begin(folder, own, spec, given, start, scope)
    except EngineError as error:  # the node's fault, not the program's: the rank has no exit
        with (own / "log").open("a") as log:
            log.write(f"nvlaunch: {error}\n")
        procs.kill(scope, grace=0)
        return 1
    except OSError as error:
        fault = node_fault.of(error, "rank")
        if fault is not None:
            _tell(Path(agent["socket"]), spec, _end(None), fault)
        raise
    stop_code = 128 + signal.SIGTERM
    code = stop_code if script is None else _wait(own, script, given["agent"], given["deadline"])
    if code is None:
        procs.kill(scope, grace=0)
        return 1
    if code == 0:
        _await_writes(folder, own, given)
    end = _end(code)
    while not _kept(own, Path(agent["socket"]), spec, end):
        if not _lives(given["agent"]):
            return 1
    return 0


def _await_writes(folder: Path, own: Path, given: EnvironmentReply) -> None:
    """Wait until the node's writes to buckets are sent: a rank that succeeds has its results there.

    Its log says so, which is also a sign of life. After the limit the rank ends all the same.
    """
    until, said = now() + mounts.SEND_S, 0.0
    while (unsent := mounts.unsent(folder)) and now() < until:
        if now() - said >= TELL_S:
            said = now()
            with contextlib.suppress(OSError), (own / "log").open("a") as log:
                log.write(f"nvlaunch: sending writes to the bucket: {mounts.listed(unsent)}\n")
        if not _lives(given["agent"]) or now() > Deadline.read(given["deadline"]) + LATE_S:
            return


def _end(code: int | None) -> RankExitFile:
    return {"code": code, "at": time.time(), "since_boot": now()}


def _kept(own: Path, agent: Path, spec: RankSpec, end: RankExitFile) -> bool:
    """Write down how the rank ended, or have the agent remember it: a node may take no file any more."""
    try:
        files.write(own / "exit.json", end)
    except OSError:
        return _tell(agent, spec, end)
    return True


def _tell(agent: Path, spec: RankSpec, end: RankExitFile, fault: NodeFault | None = None) -> bool:
    """Tell the agent how the rank ended; return whether it took note."""
    told: EndedRequest = {
        "op": "ended",
        "protocol": PROTOCOL,
        "member": spec["member"],
        "attempt": spec["attempt"],
        "end": end,
    }
    if fault is not None:
        told["fault"] = fault
    try:
        return bool(rpc.ask(agent, told, timeout=10)["ok"])
    except (OSError, ValueError):
        return False


def _lives(agent: int) -> bool:
    """Wait a moment; return whether the agent still lives."""
    try:
        handle = os.pidfd_open(agent)
    except ProcessLookupError:
        return False
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    ended = poll.poll(LOOK_S * 1000)
    os.close(handle)
    return not ended


def _begin(
    folder: Path, own: Path, spec: RankSpec, given: EnvironmentReply, start: StartFiles, scope: procs.Scope
) -> RankScript:
    """Start the script, in the container of its group where it has one; `start` keeps what bash reads before it."""
    secrets = environment.declared(files.read(Path(given["secrets"])) or {}, spec.get("secrets"))
    last = {environment.MARK: os.environ[environment.MARK], "NVLAUNCH_HEARTBEAT": str(own / ranks.HEARTBEAT)}
    if container := spec_of(folder, spec["variables"]["group"]):
        env = {**environment.of_rank(folder, {**spec, "python": ""}, {}, secrets), **last}
        _ask_readiness(own, spec, env)
        inside = Path(given["secrets"]).parent / f"{own.parent.name}.{own.name}"
        return InnerScript(
            start_inside(folder, container, given, inside, env, folder / spec["script"], own / "log"), scope
        )
    env = {**start.script, **environment.of_rank(folder, spec, start.env, secrets), **last}
    _ask_readiness(own, spec, env)
    return HostScript(_spawn(folder, own, spec, given, start, env))


def _ask_readiness(own: Path, spec: RankSpec, env: dict[str, str]) -> None:
    """Begin to ask the server of the rank whether it is ready, where the task says how."""
    if (asked := spec.get("readiness")) is not None:
        readiness.begin(own, asked, env)


def _spawn(
    folder: Path, own: Path, spec: RankSpec, given: EnvironmentReply, start: StartFiles, env: dict[str, str]
) -> int:
    os.chdir(folder / "workdir")
    os.umask(start.umask)
    try:
        with node_fault.logging_to(own / "log"):
            return os.posix_spawn(
                start_files.bash(given["base"]),
                ["bash", str(folder / spec["script"])],
                env,
                file_actions=[
                    (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                    (os.POSIX_SPAWN_OPEN, 1, str(own / "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
                    (os.POSIX_SPAWN_DUP2, 1, 2),
                ],
                setpgroup=0,
                setsigdef=[signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
            )
    finally:
        os.umask(0o077)


def _wait(own: Path, script: RankScript, agent: int, deadline: str) -> int | None:
    """Return the script's exit code as a shell says it (128 + n for a signal n).

    None where the agent ended, or the deadline for its ranks has passed. A shell ends at once with the stop signal that
    its program gets too. The program has until the end of its grace time: a rank that was told to stop has ended when
    no process of it is left.
    """
    reading, writing = socket.socketpair()
    reading.setblocking(False)
    writing.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    try:
        lease = os.pidfd_open(agent)
    except ProcessLookupError:
        return None
    poll = select.poll()
    poll.register(lease, select.POLLIN)
    poll.register(reading, select.POLLIN)
    while True:
        code = script.code()
        if code is not None and not ((own / ranks.STOPPING).exists() and script.has_left()):
            return code
        handle = script.handle()
        if handle is not None:
            poll.register(handle, select.POLLIN if code is None else 0)
        soon = script.inside and (code is not None or handle is None)
        left = Deadline.read(deadline) + LATE_S - now()
        ready = [handle for handle, _ in poll.poll(min(SOON_S if soon else LOOK_S, max(0.0, left) + SOON_S) * 1000)]
        if lease in ready or now() > Deadline.read(deadline) + LATE_S:
            return None
        if reading.fileno() in ready:
            reading.recv(4096)
