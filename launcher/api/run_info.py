"""A run as `status -o json` shows it."""

import json
from dataclasses import dataclass

from launcher.core.control.status import RunStatus
from launcher.store.codec import load
from launcher.store.rows import readable
from launcher.store.status_reads import StoredStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo(RunStatus):
    """The status of a run, its user, and whether it has a live controller."""

    user: str
    submit_host: str
    driven: bool


def read_run_info(stored: StoredStatus) -> RunInfo:
    """Return a run as its controller last saw it.

    OtherVersionError where another version wrote it.
    """
    with readable(stored.id):
        return load(RunInfo, json.dumps(stored.plain()))
