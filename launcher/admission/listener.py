"""The notices of an admission, and their receiver."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from launcher.admission.node_checks import Examined
from launcher.core.checks.results import CheckedNode
from launcher.core.model.git_workdir import GitWorkdir
from launcher.core.model.inventory import Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall
from launcher.core.model.run import Run, RunId, RunName
from launcher.core.model.task import Group, Task
from launcher.core.model.text import count
from launcher.core.placement.resize import ResizePlan
from launcher.core.planner.placement_cost import SliceCosts
from launcher.errors import Mistake
from launcher.ports import LearntKey, Listener
from launcher.setup.lease import Holder
from launcher.store.store import Store
from launcher.transport.upload.files import UploadSize


@dataclass(frozen=True, slots=True, kw_only=True)
class InventoryRead:
    """The inventory that the task is placed on."""

    fleet: Inventory


@dataclass(frozen=True, slots=True, kw_only=True)
class FileWarning:
    """Something doubtful in the task file."""

    mistake: Mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class KindChosen:
    """The kind of node that a group gets.

    Its index among `total`; `fits` is False where no kind fits at all.
    """

    group: Group
    index: int
    total: int
    fits: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DomainsUnknown:
    """Nodes whose NVLink domain is not known before they are asked.

    `assumed`: the plan takes their racks for their domains.
    """

    nodes: Sequence[NodeName]
    assumed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesHeld:
    """Nodes that were skipped because others hold their leases."""

    held: Mapping[NodeName, Holder]


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesUnfit:
    """Nodes that were skipped because of a fault."""

    unfit: Mapping[NodeName, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobAwaited:
    """Nodes that Slurm does not let us into, and that are waited for up to `limit` seconds."""

    nodes: Sequence[NodeName]
    limit: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesChecked:
    """The nodes of the placement with what was found.

    Some findings may be bad although they stop nothing.
    """

    examined: Sequence[Examined]


@dataclass(frozen=True, slots=True, kw_only=True)
class StartCheckBegun:
    """The check `before_start` has begun on these nodes.

    A test takes up to `limit` seconds, all together up to `total`.
    """

    nodes: Sequence[NodeName]
    limit: float
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesPassed:
    """The results of `before_start`; nodes for which it cannot tell are used all the same."""

    results: Sequence[CheckedNode]


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskPlaced:
    """Where the task is about to run, and what each slice costs.

    `again` where other runs took the nodes of an earlier placement.
    """

    task: Task
    placement: Placement
    costs: SliceCosts
    again: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DoesNotFitNow:
    """Why a task that is about to be queued does not fit now."""

    task: Task
    shortfall: Shortfall


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketUpload:
    """How far the upload of a local path to a bucket is, in bytes, every two seconds; `more` is said of it besides."""

    path: str
    url: str
    copied: int
    total: int
    more: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketsUploaded:
    """All uploads to buckets are over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneBegun:
    """The workdir is being cloned from a git repository, which can take minutes."""

    workdir: GitWorkdir


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesWeighed:
    """How much is sent to each node."""

    weight: UploadSize


@dataclass(frozen=True, slots=True, kw_only=True)
class NodesLost:
    """A run did not get the leases of its nodes; it is placed again without them."""

    name: RunName
    held: Mapping[NodeName, Holder]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResizePlanned:
    """How a running run is about to change."""

    run: Run
    difference: ResizePlan


Notice: TypeAlias = (
    InventoryRead
    | FileWarning
    | KindChosen
    | DomainsUnknown
    | NodesHeld
    | NodesUnfit
    | JobAwaited
    | NodesChecked
    | StartCheckBegun
    | NodesPassed
    | TaskPlaced
    | DoesNotFitNow
    | CloneBegun
    | BucketUpload
    | BucketsUploaded
    | FilesWeighed
    | NodesLost
    | ResizePlanned
)


class AdmissionListener(Listener, Protocol):
    """Receives the notices of an admission, and may stop it before it changes anything."""

    def notify(self, notice: Notice) -> None:
        """Receive a notice."""

    def confirm(self, question: str) -> None:
        """Return to go on; raise to stop."""


class SilentListener:
    """Ignores all notices, and confirms."""

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Ignore."""

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Ignore."""

    def learnt(self, keys: Sequence[LearntKey]) -> None:
        """Ignore."""

    def notify(self, notice: Notice) -> None:
        """Ignore."""

    def confirm(self, question: str) -> None:
        """Confirm."""


class ControllerListener(SilentListener):
    """Writes what a user should know to the journal of a run."""

    def __init__(self, store: Store, run: RunId) -> None:
        self._store = store
        self._run = run

    def learnt(self, keys: Sequence[LearntKey]) -> None:
        """Write how many host keys were learnt."""
        self._store.journal.warn(
            self._run, "host keys", "; ".join(line.strip() for line in learnt_text(keys)), time.time()
        )


MAX_NAMED = 4


def learnt_text(keys: Sequence[LearntKey]) -> tuple[str, ...]:
    """Return lines that say which host keys were accepted at the first contact, and what to do."""
    more, kept = len(keys) - MAX_NAMED, keys[0].kept
    return (
        f"accepted {count(len(keys), 'unknown host key')}, kept in `{kept}`: compare with the machines' own",
        *(f"  {key.host} {key.fingerprint}" for key in keys[: MAX_NAMED if more > 1 else None]),
        *((f"  and {more} more: `ssh-keygen -lf {kept}` prints all",) if more > 1 else ()),
    )
