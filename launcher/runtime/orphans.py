"""Answers for a folder whose agent is gone: what is left of the run on this machine, and its end.

A killed agent is no obstacle: its marks are in the environment of all that it started.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import agent_api, files, procs, rpc
from .fences import Fences

STOP_S = procs.KILL_S + 5


def main(argv: list[str]) -> int:
    """`ask FOLDER` answers a question from stdin without an agent; `stop FOLDER` ends agent and run, with proof."""
    folder = Path(argv[1])
    spec = files.read(folder / "agent.json")
    if spec is None:
        answer: dict[str, Any] = {"ok": True, "absent": True}
    elif argv[0] == "stop":
        answer = stop(folder, spec)
    else:
        answer = ask(folder, spec, json.load(sys.stdin))
    print(json.dumps(answer))
    return 0


def ask(folder: Path, spec: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """Return `status` (how many processes are left over) and `kill`; nothing else goes without an agent."""
    if procs.agents(spec["run"], spec["place"]):
        return {"ok": False, "message": "the agent lives, but its socket is gone"}
    if question["op"] == "status":
        return {"ok": True, "agent": None, "leftovers": len(procs.scan(procs.of_spec(spec)))}
    if question["op"] != "kill":
        return {"ok": False, "message": "no agent of this run lives on the node"}
    fields = {name: question[name] for name in ("level", "generation", "member", "attempt") if name in question}
    scope = replace(procs.of_spec(spec), **fields)
    Fences(folder / agent_api.FENCES).raise_to(scope.level, scope.member, scope.generation, scope.attempt)
    left = procs.kill(scope)
    return {"ok": not left, "left": left}


def stop(folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """End the agent, by asking or by force, and all of the run; returns what is left after two scans."""
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
        agent_api.clear(folder, spec)
    return {"ok": not remaining, "left": remaining}
