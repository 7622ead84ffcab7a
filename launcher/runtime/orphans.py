"""Replies for a folder whose agent is gone.

They tell what is left of the run on this machine, and end it. A killed agent is no obstacle: everything that it started
has its mark in the environment.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import agent_folders, files, mounts, procs, rpc
from .containers import keep
from .fences import Fences
from .protocol import StatusReply
from .protocol_files import AgentSpec

STOP_S = procs.KILL_S + 5


def main(argv: list[str]) -> int:
    """Reply to the request on stdin without an agent: `ask FOLDER`, or `for FOLDER`.

    With `for` the agent's spec comes with the request (`OrphansRequest`): then no file is needed on the machine.
    """
    folder, asked = Path(argv[1]), json.load(sys.stdin)
    spec = files.agent_spec(folder) if argv[0] == "ask" else asked["spec"]
    request = asked if argv[0] == "ask" else asked["request"]
    print(json.dumps(reply(folder, spec, request)))
    return 0


def reply(folder: Path, spec: AgentSpec | None, request: dict[str, Any]) -> StatusReply:
    """Return the reply to `status`, `kill` and `stop`; other requests are refused.

    A status counts the processes that are left over. A stop ends an agent that lives too.
    """
    if spec is None:
        return {"ok": True, "absent": True}
    if request["op"] == "stop":
        return stop(folder, spec, asks=not request.get("force", False))
    if procs.agents(spec["run"], spec["place"]):
        return {"ok": False, "message": "the agent runs, but its socket is gone"}
    if request["op"] == "status":
        return {"ok": True, "agent": None, "leftovers": len(procs.scan(procs.of_spec(spec)))}
    if request["op"] != "kill":
        return {"ok": False, "message": "the agent is no longer running"}
    fields = {name: request[name] for name in ("level", "generation", "member", "attempt") if name in request}
    scope = replace(procs.of_spec(spec), **fields)
    if folder.is_dir():
        fences = Fences(folder / agent_folders.FENCES)
        fences.raise_to(scope.level, scope.member, scope.generation, scope.attempt)
    left = procs.kill(scope)
    told = mounts.end(folder, spec) if scope.level == "node" and not left else ""
    ended: StatusReply = {"ok": not left, "left": left}
    if told:
        ended["message"] = told
    return {**ended, **keep.after_kill(scope.level, ended, folder, spec, keep.user_base())}


def stop(folder: Path, spec: AgentSpec, *, asks: bool = True) -> StatusReply:
    """End the agent, by request where it `asks` or by force, and all of the run.

    `left` is what remains after two scans. What cannot be removed is named, and keeps nothing.
    """
    agents = procs.agents(spec["run"], spec["place"])
    try:
        if asks:
            rpc.ask(Path(spec["socket"]), {"op": "stop"}, timeout=STOP_S)
            procs.await_end(agents, 5.0)
    except (OSError, ValueError):
        pass  # it is dead or does not answer: by force, below
    left = procs.agents(spec["run"], spec["place"])
    procs.send(left, 9)
    procs.await_end(left, 5.0)
    remaining = procs.kill(procs.of_spec(spec))
    remaining += [agent.pid for agent in procs.agents(spec["run"], spec["place"])]
    ended: StatusReply = {"ok": not remaining, "left": remaining}
    if remaining:
        return ended
    removed = keep.removed(folder, spec, keep.user_base())
    if not removed["ok"]:
        return {**ended, **removed}
    told = [removed.get("message"), mounts.end(folder, spec), agent_folders.clear(folder, spec)]
    if any(told):
        ended["message"] = "; ".join(filter(None, told))
    return ended
