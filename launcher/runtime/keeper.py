"""The one long-lived process of ours on a node for a run, or for the run's Ray head.

It is the session, the subreaper and the parent of `ray start --block`, so the ancestor of every rank; it holds the
node's lease; it sweeps; and it answers questions on a Unix socket. It lives exactly as long as the run.
"""

import ctypes
import fcntl
import json
import logging
import os
import resource
import select
import sys
import threading
import time
from pathlib import Path
from typing import Any

from . import environment, files, interpreter, lease, login, logs, procs, prune, rpc, scope
from .children import Children
from .service import BEGAN, Service, clear_scratch

PR_SET_CHILD_SUBREAPER = 36
BEGIN_S = 30.0
OK, FAILED, HELD = 0, 1, 6


def begin(folder: Path) -> int:
    """Start the keeper of a folder, detached, unless it lives; prints how that went, returns when it answers."""
    spec = files.read(folder / "keeper.json") or {}
    scratch = files.private(Path(spec["scratch"]))
    if living := _living(spec):
        return _say(OK, living)
    if wrong := interpreter.check(spec):
        return _say(FAILED, {"ok": False, "words": wrong})
    (folder / "log").mkdir(mode=0o700, exist_ok=True)
    lock = os.open(scratch / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # two starts at once: the second finds the keeper of the first
    if living := _living(spec):
        return _say(OK, living)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        _detach(folder, spec, writing)
    os.close(writing)
    said = _read(reading)
    status = OK if said.get("ok") else HELD if "held" in said else FAILED
    return _say(status, said or {"ok": False, "words": "the keeper ended at once", "tail": _log_tail(folder)})


def _living(spec: dict[str, Any]) -> dict[str, Any] | None:
    """Answer what the keeper of this folder says, None when there is none."""
    try:
        return rpc.ask(Path(spec["socket"]), {"op": "hello"}, timeout=5)
    except (OSError, ValueError):
        return None


def _say(status: int, answer: dict[str, Any]) -> int:
    print(json.dumps(answer))
    return status


def _log_tail(folder: Path) -> list[str]:
    return logs.tail(folder / "log" / "keeper.log")


def _read(handle: int) -> dict[str, Any]:
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    said = os.read(handle, 65536) if poll.poll(BEGIN_S * 1000) else b""
    answer: dict[str, Any] = json.loads(said) if said else {}
    return answer


def _detach(folder: Path, spec: dict[str, Any], writing: int) -> None:
    """Become the keeper: a session of its own, no terminal, no pipe of the starter's, a marked environment."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir(folder)
    null = os.open("/dev/null", os.O_RDONLY)
    log = os.open("log/keeper.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.set_inheritable(writing, True)
    whole = spec.get("login", False)
    base = environment.user(login.environ(os.environ) if whole else os.environ, whole=whole)
    env = {**base, procs.KEEPER_MARK: f"{spec['run']}:{spec['place']}"}
    package = str(Path(__file__).resolve().parent)
    before, more = scope.lasting() if whole else ([], {})
    argv = [*before, sys.executable, "-EsS", package, "keeper", "serve", os.getcwd(), str(writing)]
    os.execvpe(argv[0], argv, {**env, **more})


def serve(folder: Path, writing: int) -> int:
    """Take the lease, listen, and keep; tells the starter how it went through `writing`."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    spec = files.read(folder / "keeper.json") or {}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a head's keeper has a connection from each node
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        held = lease.take(spec["lease"], f"{spec['holder']} since {since}") if spec["lease"] else None
        if left := procs.sweep(procs.of_spec(spec), grace=0):  # of a keeper of this run that was killed
            raise OSError(f"processes of an earlier keeper cannot be killed: {left}")
        block, _ = lease.take_block(spec["ports"], (files.read(folder / "ports.json") or {}).get("block"))
        files.write(folder / "ports.json", {"block": block})
        _say_when(folder)
        children = Children()
        service = Service(folder, spec, block, children)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if service.listener:
            service.listener.listen("", block + spec["heartbeat"])
        rpc.serve(Path(spec["socket"]), service.reply)
    except lease.HeldError as error:
        clear_scratch(spec)
        _tell(writing, {"ok": False, "held": str(error)})
        return HELD
    except OSError as error:
        _tell(writing, {"ok": False, "words": f"the keeper cannot start: {error}"})
        return FAILED
    in_use = prune.hold(folder)
    _tell(writing, {"ok": True, "block": block})
    threading.Thread(target=_tidy, args=(folder, spec), name="prune", daemon=True).start()
    watched = service.listener or service.beat
    threading.Thread(target=watched.keep, args=(children.stopping,), name="watch", daemon=True).start()
    logging.info("keeping %s on %s, ports from %s, lease %s", spec["run"], spec["place"], block, held)
    children.serve(service.tick)
    logging.info("done")
    os.close(in_use)
    return OK


def _tidy(folder: Path, spec: dict[str, Any]) -> None:
    try:
        for path in prune.prune(folder, spec, time.time()):
            logging.info("removed what an old run left in `%s`", path)
    except OSError:  # a folder that somebody else changes, or may not be read: another time
        logging.exception("cannot remove what old runs left")


def _say_when(folder: Path) -> None:
    """Write down when the run began here: what the kernel's log has of earlier is not of this run. A keeper that was
    killed and started again has not begun anew; a machine that was has."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if (files.read(folder / BEGAN) or {}).get("boot_id") != boot:
        files.write(folder / BEGAN, {"boot_id": boot, "at": time.monotonic()})


def _tell(writing: int, answer: dict[str, Any]) -> None:
    os.write(writing, json.dumps(answer).encode())
    os.close(writing)


def main(argv: list[str]) -> int:
    """`begin FOLDER` starts the keeper; `serve FOLDER DESCRIPTOR` is the keeper."""
    if argv[0] == "begin":
        return begin(Path(argv[1]).absolute())
    return serve(Path(argv[1]), int(argv[2]))
