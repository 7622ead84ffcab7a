"""Answers for a folder whose keeper is gone: what is left of the run on this machine, and its end.

A killed keeper is no obstacle: its marks are in the environment of all that it started.
"""

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import agent_api, files, procs, rpc
from .fences import Fences

STOP_S = procs.SWEEP_S + 5


def main(argv: list[str]) -> int:
    """`ask FOLDER` answers a question from stdin without a keeper; `stop FOLDER` ends keeper and run, with proof."""
    folder = Path(argv[1])
    spec = files.read(folder / "keeper.json")
    if spec is None:
        answer: dict[str, Any] = {"ok": True, "absent": True}
    elif argv[0] == "stop":
        answer = stop(folder, spec)
    else:
        answer = ask(folder, spec, json.load(sys.stdin))
    print(json.dumps(answer))
    return 0


def ask(folder: Path, spec: dict[str, Any], question: dict[str, Any]) -> dict[str, Any]:
    """Answer `status` (how many processes are left over) and `sweep`; nothing else goes without a keeper."""
    if procs.keepers(spec["run"], spec["place"]):
        return {"ok": False, "words": "the keeper lives, but its socket is gone"}
    if question["op"] == "status":
        return {"ok": True, "keeper": None, "leftovers": len(procs.scan(procs.of_spec(spec)))}
    if question["op"] != "sweep":
        return {"ok": False, "words": "no keeper of this run lives on the node"}
    fields = {name: question[name] for name in ("level", "generation", "member", "epoch") if name in question}
    scope = replace(procs.of_spec(spec), **fields)
    Fences(folder / agent_api.FENCES).raise_to(scope.level, scope.member, scope.generation, scope.epoch)
    left = procs.sweep(scope)
    return {"ok": not left, "left": left}


def stop(folder: Path, spec: dict[str, Any]) -> dict[str, Any]:
    """End the keeper, by asking or by force, and all of the run; answers what is left after two scans."""
    keepers = procs.keepers(spec["run"], spec["place"])
    try:
        rpc.ask(Path(spec["socket"]), {"op": "stop"}, timeout=STOP_S)
    except (OSError, ValueError):
        pass  # it is dead or does not answer: by force, below
    else:
        procs.await_end(keepers, 5.0)
    left = procs.keepers(spec["run"], spec["place"])
    procs.send(left, 9)
    procs.await_end(left, 5.0)
    remaining = procs.sweep(procs.of_spec(spec))
    remaining += [keeper.pid for keeper in procs.keepers(spec["run"], spec["place"])]
    if not remaining:
        agent_api.clear(folder, spec)
    return {"ok": not remaining, "left": remaining}
