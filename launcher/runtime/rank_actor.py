"""The detached actor that holds the bundle of a slot and starts the slot's ranks."""

import contextlib
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from . import files, node_fault, shared
from .protocol import Reply
from .protocol_files import RankSpec, described

BEGUN_S = 10.0
FETCH_S = 20.0


class RankActor:
    """The actor of one slot and generation.

    It keeps no state: what began and ended is in the rank's folder.
    """

    def start(self, label: str, spec: RankSpec, mark: str, document: list[Any]) -> "str | Reply":
        """Start the rank of a slot for an attempt, once.

        Return an empty string, or why it did not start: a sentence, or a reply with the fault of the node. `document`
        refers to the shared variables in Ray's object store, for a node that does not have them.
        """
        own = Path(os.environ["NVLAUNCH_FOLDER"]) / "ranks" / label / str(spec["attempt"])
        wrong = ""
        try:
            wrong = self._start(label, spec, mark, document)
            fault = node_fault.look((own,), "rank") if wrong else None
        except (OSError, RuntimeError) as error:
            fault = node_fault.of(error, "rank")
            if fault is None:
                raise
        if fault is None:
            return wrong
        return {"ok": False, "message": f"rank `{label}`: {described(fault)}", "fault": fault}

    @staticmethod
    def _start(label: str, spec: RankSpec, mark: str, document: list[Any]) -> str:
        folder = Path(os.environ["NVLAUNCH_FOLDER"])
        own = folder / "ranks" / label / str(spec["attempt"])
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        if (own / "state.json").exists():
            return ""
        shared.keep(folder, spec["variables"]["shared"], lambda: _fetch(document))
        files.write(own / "spec.json", spec)
        package = str(Path(__file__).resolve().parent)
        with (own / "parent.log").open("ab") as log:
            parent = subprocess.Popen(
                [sys.executable, "-EsS", package, "rank", str(folder), label, str(spec["attempt"])],
                env={**os.environ, "NVLAUNCH_MARK": mark},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ray kills the group of a worker that ends: the exit file would be lost
            )
        with contextlib.suppress(RuntimeError):  # no thread more: it stays a zombie of this actor
            threading.Thread(target=parent.wait, daemon=True).start()
        return "" if begun(parent.pid, own) else f"rank `{label}` did not start: see `{own}/parent.log`"


def _fetch(document: list[Any]) -> bytes:
    import ray

    (reference,) = document
    content: bytes = ray.get(reference, timeout=FETCH_S)
    return content


def begun(parent: int, own: Path) -> bool:
    """Whether the parent of a rank wrote its state within ten seconds.

    It is polled until then, or until it ends.
    """
    poll = select.poll()
    try:
        poll.register(os.pidfd_open(parent), select.POLLIN)
    except ProcessLookupError:  # it has ended, and was reaped
        return (own / "state.json").exists()
    for _ in range(int(BEGUN_S * 20)):
        ended = poll.poll(50)
        if (own / "state.json").exists():
            return True
        if ended:
            return False
    return False
