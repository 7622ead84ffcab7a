"""How far a launch is, by its journal: the moments at which somebody interrupts it or kills its controller."""

import re
import time

from launcher.store.status_reads import StatusReader
from launcher.store.store import Store
from tests.desk import AMPLE_S, Desk
from tests.rig import Host

# What stays beside the folder of the run: leases, which are locks; what Python and login shells write of their own.
OWN = re.compile(r"lock|lease|/__pycache__/|^/var/log/")
INTENT, STATUS = "intent", "status"
STAGES = {
    "lease": (INTENT, "acquire:"),
    "sync": (STATUS, "copying files"),
    "environment": (STATUS, "making a Python environment"),
    "setup": (STATUS, "in setup"),
    "head": (INTENT, "start_head"),
    "workers": (INTENT, "join:"),
    "placement groups": (INTENT, "reserve:"),
    "ranks": (INTENT, "start:"),
    "following": (STATUS, "ranks running"),
}


def await_stage(desk: Desk, name: str, stage: str) -> None:
    """Return as soon as a launch is at a stage."""
    deadline = time.monotonic() + AMPLE_S
    while not _reached(desk, name, *STAGES[stage]):
        assert time.monotonic() < deadline, f"`{name}` never came to `{stage}`: {desk.run('events', name).stdout}"
        time.sleep(0.01)


def _reached(desk: Desk, name: str, kind: str, words: str) -> bool:
    if name not in StatusReader(desk.home).names():
        return False
    store = Store(desk.home)
    told = (event for event in store.journal.events(store.find(name).id) if event.kind.value == kind)
    return any(event.subject.startswith(words) if kind == INTENT else words in event.message for event in told)


def outside(host: Host, run: str, before: set[str]) -> set[str]:
    """What a run left on a host outside of its folder, but for leases, and the environment that the next one wants."""
    paths = {path for path in host.written() - before if run not in path and not OWN.search(path)}
    return {
        path for path in paths if not path.startswith(("/etc/nvidia-imex", "/var/lib/rig")) and "/.nvlaunch" not in path
    }


def left_on(host: Host, run: str) -> list[str]:
    """What is left of a run on a host, once it had a moment to leave."""
    deadline = time.monotonic() + 20
    while (found := [p.argv for p in host.processes(run) if p.state != "Z"]) and time.monotonic() < deadline:
        time.sleep(0.1)
    return [" ".join(argv) for argv in found]
