"""What Slurm does on a node: its daemon, its jobs, and the job that a session was put into."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from launcher.probe.results import ProbeResult, Unknown, first_words, number, read_object, string

MAX_JOBS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmNode:
    """Whether `slurmd` runs, and the user of each job with a step on the node; empty if unknown.

    `adopted` is the job whose control group our session is in, `pam` the line of PAM that put it there; `installed` are
    the GPUs of the node, of which such a session may see fewer.
    """

    daemon: bool = False
    jobs: Mapping[str, str] = field(default_factory=dict)
    adopted: str | None = None
    pam: str | None = None
    installed: int = 0


def read_slurm(result: ProbeResult | None) -> SlurmNode | Unknown:
    """Return what Slurm does on a node."""
    found = read_object(result, "the Slurm check")
    if isinstance(found, Unknown):
        return found
    jobs, adopted, pam = found.get("jobs"), string(found, "adopted"), string(found, "pam")
    return SlurmNode(
        daemon=found.get("daemon") is True,
        jobs={
            first_words(job): first_words(user) if user else ""
            for job, user in list(jobs.items() if isinstance(jobs, dict) else ())[:MAX_JOBS]
            if isinstance(user, str)
        },
        adopted=first_words(adopted) if adopted else None,
        pam=first_words(pam) if pam else None,
        installed=int(number(found, "installed")),
    )
