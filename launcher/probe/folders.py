"""Folders of a node in which a run makes files, and what happened when one was made there."""

from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import Node
from launcher.probe.results import ProbeResult, Unknown, first_words, read_object, string

RUNS = "~/.nvlaunch/runs"
"""The folder of all runs, as in `setup/layout.py`: programs, scripts, workdir, logs."""

ENVIRONMENTS = "~/.nvlaunch/env"
"""The folder of Python environments, as in `runtime/interpreter.py`."""

SCRATCH = "/tmp"  # noqa: S108 -- a file is made and removed
"""The folder of sockets and of Ray's session."""

MEMORY = "/dev/shm"  # noqa: S108 -- a file is made and removed
"""The folder of secrets and of Ray's objects."""

NETWORK = (
    "nfs", "lustre", "gpfs", "ceph", "beegfs", "wekafs", "panfs", "cifs", "smb", "9p", "fuse.", "afs", "glusterfs",
)  # fmt: skip
"""How the types of file systems begin that several nodes may have in common."""

MAX_FAILED = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedStep:
    """A step that failed: `create a file`, `write a file`, `execute`, `socket` or `open`, and its errno by name."""

    step: str
    errno: str
    message: str
    path: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderTrial:
    """What failed when a file was made in a folder; `at` is where it was tried, as what is missing will be made.

    `kind`, `source` and `mount` are the type, the source and the place of its file system.
    """

    path: str
    at: str
    kind: str = ""
    source: str = ""
    mount: str = ""
    failed: tuple[FailedStep, ...] = ()

    @property
    def shared(self) -> str | None:
        """Return the source of a file system that other machines may have too; None for another one."""
        return f"{self.kind}, {self.source}" if self.source and self.kind.startswith(NETWORK) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class LeasePlace:
    """The path at which a lease can be taken; None without one. `failed` are the paths before it."""

    usable: str | None
    failed: tuple[FailedStep, ...] = ()


def tried(node: Node, more: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the folders to try on a node, each with what else is tried of a file there; `more` are those of a task.

    An environment is made, and executed, where the inventory names no Python. The user's programs are executed in a
    run's folder, and compiled by frameworks in `/tmp`.
    """
    own = {ENVIRONMENTS: ("execute",)} if node.access.python is None else {}
    known = {RUNS: ("execute",), **own, SCRATCH: ("execute", "socket"), MEMORY: ()}
    return {**dict.fromkeys(more, ()), **known}


def read_trial(result: ProbeResult | None, path: str) -> FolderTrial | Unknown:
    """Return what happened when a file was made in a folder."""
    found = read_object(result, f"the trial of `{path}`")
    if isinstance(found, Unknown):
        return found
    return FolderTrial(
        path=path,
        at=first_words(string(found, "at") or path),
        kind=first_words(string(found, "type")) if found.get("type") else "",
        source=first_words(string(found, "source")) if found.get("source") else "",
        mount=first_words(string(found, "mount")) if found.get("mount") else "",
        failed=_failed(found.get("failed")),
    )


def read_lease_place(result: ProbeResult | None) -> LeasePlace | Unknown:
    """Return where a lease can be taken."""
    found = read_object(result, "the trial of the lease")
    if isinstance(found, Unknown):
        return found
    return LeasePlace(usable=string(found, "usable") or None, failed=_failed(found.get("failed")))


def _failed(found: object) -> tuple[FailedStep, ...]:
    return tuple(
        FailedStep(
            step=first_words(string(item, "step")),
            errno=first_words(string(item, "errno")),
            message=first_words(string(item, "message")),
            path=first_words(string(item, "path")) if item.get("path") else "",
        )
        for item in (found if isinstance(found, list) else [])[:MAX_FAILED]
        if isinstance(item, dict)
    )
