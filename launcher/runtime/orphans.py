"""Replies for a folder whose agent is gone.

They tell what is left of the run on this machine, and end it. A killed agent is no obstacle: everything that it started
has its mark in the environment.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import agent_folders, files, procs, rpc
from .fences import Fences
from .protocol import Reply, StatusReply
from .protocol_files import AgentSpec

STOP_S = procs.KILL_S + 5


def main(argv: list[str]) -> int:
    """Reply without an agent, `ask FOLDER`, or end the run, `stop FOLDER`.

    `ask` reads the request from stdin.
    """
    folder = Path(argv[1])
    spec = files.agent_spec(folder)
    if spec is None:
        reply: Reply = {"ok": True, "absent": True}
    elif argv[0] == "stop":
        reply = stop(folder, spec)
    else:
        reply = ask(folder, spec, json.load(sys.stdin))
    print(json.dumps(reply))
    return 0


def ask(folder: Path, spec: AgentSpec, request: dict[str, Any]) -> StatusReply:
    """Return the reply to `status` and `kill`.

    Other requests are refused. A status counts the processes that are left over.
    """
    if procs.agents(spec["run"], spec["place"]):
        return {"ok": False, "message": "the agent runs, but its socket is gone"}
    if request["op"] == "status":
        return {"ok": True, "agent": None, "leftovers": len(procs.scan(procs.of_spec(spec)))}
    if request["op"] != "kill":
        return {"ok": False, "message": "the agent is no longer running"}
    fields = {name: request[name] for name in ("level", "generation", "member", "attempt") if name in request}
    scope = replace(procs.of_spec(spec), **fields)
    fences = Fences(folder / agent_folders.FENCES)
    fences.raise_to(scope.level, scope.member, scope.generation, scope.attempt)
    left = procs.kill(scope)
    return {"ok": not left, "left": left}


def stop(folder: Path, spec: AgentSpec) -> Reply:
    """End the agent, by request or by force, and all of the run.

    `left` is what remains after two scans.
    """
    agents = procs.agents(spec["run"], spec["place"])
    try:
        rpc.ask(Path(spec["socket"]), {"op": "stop"}, timeout=STOP_S)
    except (OSError, ValueError):
        pass  # it is dead or does not answer: by force, below
    else:
        procs.await_end(agents, 5.0)
    left = procs.agents(spec["run"], spec["place"])
    procs.send(left, 9)
    procs.await_end(left, 5.0)
    remaining = procs.kill(procs.of_spec(spec))
    remaining += [agent.pid for agent in procs.agents(spec["run"], spec["place"])]
    if not remaining:
        agent_folders.clear(folder, spec)
    return {"ok": not remaining, "left": remaining}
