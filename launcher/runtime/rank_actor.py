"""The detached actor that holds the bundle of a slot and starts the slot's ranks."""

import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from . import files, shared
from .protocol_files import RankSpec

BEGUN_S = 10.0
FETCH_S = 20.0


class RankActor:
    """The actor of one slot and generation.

    It keeps no state: what began and ended is in the rank's folder.
    """

    def start(self, label: str, spec: RankSpec, mark: str, document: list[Any]) -> str:
        """Start the rank of a slot for an attempt, once.

        Return an empty string, or why it did not start. `document` refers to the shared variables in Ray's object
        store, for a node that does not have them.
        """
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
        threading.Thread(target=parent.wait, daemon=True).start()  # or it would stay a zombie of this actor
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
