"""The parent of one rank's script: gives it its environment, waits for it, and writes down how it ended.

It outlives the actor that started it, so that an exit is never lost; it does not outlive the keeper, because without
the keeper nobody holds the node's lease.
"""

import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import Any

from . import files, procs, rpc

BEGUN_TWICE = 3


def main(argv: list[str]) -> int:
    """Run one rank to its end: `rank FOLDER MEMBER_LABEL EPOCH`; answers 3 where this epoch was begun before."""
    folder = Path(argv[0])
    own = folder / "ranks" / argv[1] / argv[2]
    spec = files.read(own / "spec.json") or {}
    keeper = files.read(folder / "keeper.json") or {}
    given = rpc.ask(Path(keeper["socket"]), {"op": "environment"}, timeout=10)
    me = procs.find(os.getpid())
    state = {"pid": os.getpid(), "start": me.start if me else 0, "member": spec["member"], "epoch": spec["epoch"]}
    if not files.create(own / "state.json", state):
        return BEGUN_TWICE
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        # A handler, not SIG_IGN: the script would inherit that. Our end is the script's end.
        signal.signal(number, lambda *_: None)
    child = _start(folder, own, spec, given)
    if not _wait(child, given["keeper"]):
        procs.sweep(procs.Scope(keeper["run"], keeper["place"], "rank", 0, spec["member"], spec["epoch"]), grace=0)
        return 1
    files.write(own / "exit.json", {"code": _code(child), "at": time.time()})
    return 0


def _start(folder: Path, own: Path, spec: dict[str, Any], given: dict[str, Any]) -> int:
    secrets = files.read(Path(given["secrets"])) or {}
    env = {**given["base"], **spec["env"], **secrets, **spec["rank_env"], procs.MARK: os.environ[procs.MARK]}
    os.chdir(folder / "workdir")
    return os.posix_spawnp(
        "bash",
        ["bash", str(folder / spec["script"])],
        env,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_OPEN, 1, str(own / "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600),
            (os.POSIX_SPAWN_DUP2, 1, 2),
        ],
        setpgroup=0,
        setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )


def _wait(child: int, keeper: int) -> bool:
    """Wait for the script; answers False when the keeper ended first."""
    poll = select.poll()
    script = os.pidfd_open(child)
    poll.register(script, select.POLLIN)
    try:
        poll.register(os.pidfd_open(keeper), select.POLLIN)
    except ProcessLookupError:
        return False
    return script in [handle for handle, _ in poll.poll()]


def _code(child: int) -> int:
    """Answer the exit code of a script that has ended, as a shell would say it: 128 + n for a signal n."""
    found = os.waitid(os.P_PID, child, os.WEXITED)
    if found is None:
        sys.exit("the script's end was taken by somebody else")
    return found.si_status if found.si_code == os.CLD_EXITED else 128 + found.si_status
