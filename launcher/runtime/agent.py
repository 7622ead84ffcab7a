"""The node agent: the one long-lived process of a run on a node.

The machine of the run's Ray head has one too. An agent is a session leader, a subreaper and the parent of `ray start
--block`, so an ancestor of every rank. It holds the node's lease, kills, and answers requests on a Unix socket. It
lives as long as the run.
"""

import contextlib
import ctypes
import json
import logging
import os
import threading
import time
from pathlib import Path

from . import agent_folders, environment, files, lease, mounts, node_fault, procs, prune, rpc, spawn
from .agent_api import AgentApi
from .agent_start import FAILED, HELD, OK
from .children import Children
from .heartbeat import Heartbeat
from .heartbeat_server import HeartbeatServer
from .protocol import Reply
from .protocol_files import BEGAN, AgentSpec, described

PR_SET_CHILD_SUBREAPER = 36


def serve(folder: Path, result: int) -> int:
    """Take the lease, listen, and serve until the run is over.

    The outcome of the start goes to descriptor `result`.
    """
    logging.basicConfig(format="%(asctime)s %(levelname)s %(message)s", level=logging.INFO)
    spec = files.agent_spec(folder)
    if spec is None:
        raise SystemExit(f"no `agent.json` in `{folder}`")
    spawn.raise_limits()  # a head's agent has a connection from each node
    umask = int(os.environ.get(environment.UMASK, "022"), 8)
    os.umask(0o077)
    if fault := node_fault.look((folder, Path(spec["scratch"])), "agent"):
        agent_folders.clear_scratch(spec)
        message = f"the agent cannot start: {described(fault)}"
        _report(result, {"ok": False, "message": message, "fault": fault})
        return FAILED
    try:
        since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime())
        held = lease.take(spec["lease"], f"{spec['holder']} since {since}") if spec["lease"] else None
        if left := procs.kill(procs.of_spec(spec), grace=0):  # of an agent of this run that was killed
            raise OSError(f"processes of an earlier agent cannot be killed: {left}")
        lost = mounts.end(folder, spec)
        block, _ = lease.take_block(spec["ports"], (files.read(folder / "ports.json") or {}).get("block"))
        files.write(folder / "ports.json", {"block": block})
        _note_begin(folder)
        children = Children(umask)
        api = AgentApi(folder, spec, block, children)
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        if api.heartbeats and spec["heartbeat"] is not None:
            api.heartbeats.listen("", block + spec["heartbeat"])
        watched = api.heartbeats or api.heartbeat
        threading.Thread(target=_watch, args=(watched, children, api), name="watch", daemon=True).start()
        if watched is api.heartbeat:
            threading.Thread(target=api.own.keep, args=(children.stopping,), name="status", daemon=True).start()
        rpc.serve(Path(spec["socket"]), api.reply, api.break_down)
    except lease.HeldError as error:
        agent_folders.clear_scratch(spec)
        _report(result, {"ok": False, "held_by": str(error)})
        return HELD
    except lease.RefusedLeaseError as error:
        agent_folders.clear_scratch(spec)
        _report(result, {"ok": False, "message": f"cannot take the lease: {error}", "lasting": True})
        return FAILED
    except (OSError, RuntimeError) as error:
        agent_folders.clear_scratch(spec)
        refusal = node_fault.refusal(error, "agent")
        told = refusal["message"] if "fault" in refusal else str(error)
        _report(result, {**refusal, "message": f"the agent cannot start: {told}"})
        return FAILED
    in_use = prune.hold(folder)
    _report(
        result,
        {
            "ok": True,
            "block": block,
            "warnings": [*os.environ.get(environment.TROUBLE, "").splitlines(), *filter(None, [lost])],
        },
    )
    with contextlib.suppress(RuntimeError):  # no thread more: old runs are removed another time
        threading.Thread(target=_prune, args=(folder, spec), name="prune", daemon=True).start()
    logging.info("agent of %s on %s: ports from %s, lease %s", spec["run"], spec["place"], block, held)
    try:
        children.serve(api.tick)
    except Exception as error:
        logging.exception("the agent ends")
        api.break_down(str(error))
    logging.info("agent stopped")
    os.close(in_use)
    return OK


def _watch(watched: Heartbeat | HeartbeatServer, children: Children, api: AgentApi) -> None:
    """Follow heartbeats; an agent that cannot must not go on, since others count on its self-stop."""
    try:
        watched.keep(children.stopping)
    except Exception as error:
        logging.exception("heartbeats cannot be followed")
        api.break_down(str(error))


def _prune(folder: Path, spec: AgentSpec) -> None:
    try:
        for path in prune.prune(folder, spec, time.time()):
            logging.info("removed `%s` of an old run", path)
    except OSError:  # a folder that changes, or cannot be read: another time
        logging.exception("cannot remove the folders of old runs")


def _note_begin(folder: Path) -> None:
    """Record when the run began here.

    Earlier lines of the kernel's log are not of this run. An agent that is started again keeps the time, unless the
    machine has booted since.
    """
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    if (files.read(folder / BEGAN) or {}).get("boot_id") != boot:
        files.write(folder / BEGAN, {"boot_id": boot, "at": time.monotonic()})


def _report(result: int, reply: Reply) -> None:
    os.write(result, json.dumps(reply).encode())
    os.close(result)


def main(argv: list[str]) -> int:
    """Run the agent: `serve FOLDER DESCRIPTOR`, as `agent_start.py` does."""
    return serve(Path(argv[1]), int(argv[2]))
