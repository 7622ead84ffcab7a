"""The one long-lived process of ours on a node for a run, or for the run's Ray head.

It is the session, the subreaper and the parent of `ray start --block`, so the ancestor of every rank; it holds the
node's lease; it kills; and it answers questions on a Unix socket. It lives exactly as long as the run.
"""

import ctypes
import json
import logging
import os
import resource
import threading
import time
from pathlib import Path
from typing import Any

from . import files, lease, procs, prune, rpc
from .agent_api import BEGAN, Service, clear_scratch
from .agent_start import FAILED, HELD, OK
from .children import Children

PR_SET_CHILD_SUBREAPER = 36


def serve(folder: Path, writing: int) -> int:
    """Take the lease, listen, and keep; tells the starter how it went through `writing`."""
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    spec = files.read(folder / "agent.json") or {}
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # a head's agent has a connection from each node
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        held = lease.take(spec["lease"], f"{spec['holder']} since {since}") if spec["lease"] else None
        if left := procs.kill(procs.of_spec(spec), grace=0):  # of an agent of this run that was killed
            raise OSError(f"processes of an earlier agent cannot be killed: {left}")
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
        _tell(writing, {"ok": False, "message": f"the agent cannot start: {error}"})
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
    """Write down when the run began here: what the kernel's log has of earlier is not of this run. An agent that was
    killed and started again has not begun anew; a machine that was has."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if (files.read(folder / BEGAN) or {}).get("boot_id") != boot:
        files.write(folder / BEGAN, {"boot_id": boot, "at": time.monotonic()})


def _tell(writing: int, answer: dict[str, Any]) -> None:
    os.write(writing, json.dumps(answer).encode())
    os.close(writing)


def main(argv: list[str]) -> int:
    """`serve FOLDER DESCRIPTOR` is the agent; `agent_start.py` starts it."""
    return serve(Path(argv[1]), int(argv[2]))
