"""The process that drives a run."""

import os
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Owner:
    """A process: host, boot, process id, start (clock ticks since the boot).

    A later process with the same id is another one.
    """

    host: str
    boot: str
    pid: int
    started: int

    @classmethod
    def current(cls) -> "Owner":
        """Return this process."""
        pid = os.getpid()
        return cls(host=os.uname().nodename, boot=_boot(), pid=pid, started=_started(pid) or 0)

    def alive(self) -> bool:
        """Whether the process still runs.

        True for one on another host, which cannot be checked from here.
        """
        if self.host != os.uname().nodename:
            return True
        return self.boot == _boot() and _started(self.pid) == self.started

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()


def _started(pid: int) -> int | None:
    """Return field 22 of proc(5) `stat`.

    None where the process is gone or a zombie (its state is field 3).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return None
    fields = stat[stat.rindex(")") + 2 :].split()
    return None if fields[0] in "ZX" else int(fields[19])
