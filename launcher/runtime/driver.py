"""Starts a driver: a rank under the agent, instead of an actor of Ray."""

import os
import sys
from pathlib import Path

from . import environment, files, logs, node_fault, rank_actor
from .children import Children
from .protocol import Reply
from .protocol_files import RankSpec

PACKAGE = str(Path(__file__).resolve().parent)


def begin(folder: Path, children: Children, spec: RankSpec, label: str, mark: str) -> Reply:
    """Start the parent of a driver, once for an attempt; not `ok` where it did not begin."""
    attempt = str(spec["attempt"])
    own = folder / "ranks" / label / attempt
    if (own / "state.json").exists():
        return {"ok": True}
    own.mkdir(mode=0o700, parents=True, exist_ok=True)
    files.write(own / "spec.json", spec)
    argv = [sys.executable, "-EsS", PACKAGE, "rank", str(folder), label, attempt]
    log = own / "parent.log"
    parent = children.spawn(argv, {**os.environ, environment.MARK: mark}, folder=folder, log=log, ended=lambda _: None)
    if rank_actor.begun(parent, own):
        return {"ok": True}
    wrong: Reply = {"ok": False, "message": f"driver `{label}` did not start", "tail": logs.tail(log)}
    return node_fault.blamed(wrong, own)
