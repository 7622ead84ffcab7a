"""What cannot be observed again: leases, counters, exits, verdicts. Written once a tick, before anything is done."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from launcher.core.model.actions import Kill, Reason
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Cause, GangName, MemberName, Slot


@dataclass(frozen=True, slots=True, kw_only=True)
class Exit:
    """How a rank of an attempt ended. `code` is None for one that vanished without an exit file; `at` in node time."""

    attempt: int
    code: int | None
    at: float
    tail: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether the program said that all is well."""
        return self.code == 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Counters of one gang: its current attempt (0 before the first start), restarts spent on the program's own
    failures, and why the current attempt has to end, once that is decided."""

    attempt: int = 0
    restarts: int = 0
    broken: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a run ended, decided once and never changed: cause, the words for it and the end of the log that shows it."""

    cause: Cause
    message: str
    member: MemberName | None = None
    node: NodeName | None = None
    exit_code: int | None = None
    tail: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often something failed in a row, when it may be tried again (seconds), and of a kill why."""

    count: int
    at: float
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Why a node is not used by this run any more, and how the run ends where nothing can take its place.

    `mends`: two good answers of the node about its own health, some time apart, bring it back.
    """

    cause: Cause
    message: str
    tail: tuple[str, ...] = ()
    mends: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """A fault that is more than one node's: nothing is replaced before an operator says how to go on."""

    message: str
    nodes: tuple[NodeName, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """Only what cannot be observed again: claims, counters, and facts whose evidence may vanish.

    `asked` are nodes whose lease we may have, `claimed` those whose lease we have had, `joined` those where a raylet
    may have been started; `head_asked` says that a head may live. `signalled` has the nodes whose ranks were told to
    stop, or `node:gang` where those of one gang were. `kills` are fences that were decided and have no
    `killed` receipt yet. `verified` holds, for each slice that Ray was seen to place right, the generations of its
    slots. `since` times what may not last for ever (s). `failures` counts, for each node, the failures of the program
    that began on it.

    `head` is the node of the Ray head, None where the inventory names a machine for it and it is still there; `cluster`
    counts the incarnations of the run's Ray, `heads` are machines where an earlier one may still be (None: that
    machine). `stale` are slices whose placement group has to be taken back. `stopped` says of nodes out of sight why
    nothing of the run can run there. `excused` has the signs of nodes that were found to be another's fault. `moving`
    are slices that an operator wants elsewhere, `resumed` nodes that no verdict is held for any more. `began` is the
    time of day (s) at which ranks had first been started: unlike `since`, it outlives a boot of the launching machine;
    `ahead` is by how much the time of day is ahead of the loop's clock (s), None before a controller's first look.
    `resizing`: no rank starts before the run has become what it was asked to. `newest` is the highest generation that
    slots had which are gone.
    """

    receipts_seen: int = 0
    slots: Mapping[MemberName, Slot] = field(default_factory=dict)
    gangs: Mapping[GangName, Gang] = field(default_factory=dict)
    exits: Mapping[MemberName, Exit] = field(default_factory=dict)
    requested: frozenset[NodeName] = frozenset()
    leased: frozenset[NodeName] = frozenset()
    joined: frozenset[NodeName] = frozenset()
    node_attempts: Mapping[NodeName, int] = field(default_factory=dict)
    retries: Mapping[str, Retry] = field(default_factory=dict)
    failed_nodes: Mapping[NodeName, Evidence] = field(default_factory=dict)
    kills: tuple[Kill, ...] = ()
    verified: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)
    signalled: frozenset[str] = frozenset()
    head_asked: bool = False
    failures: Mapping[NodeName, int] = field(default_factory=dict)
    outcome: Outcome | None = None
    head: NodeName | None = None
    cluster: int = 0
    heads: tuple[NodeName | None, ...] = ()
    stale: frozenset[str] = frozenset()
    stopped: Mapping[NodeName, str] = field(default_factory=dict)
    excused: Mapping[NodeName, tuple[str, ...]] = field(default_factory=dict)
    verdict: Verdict | None = None
    moving: frozenset[str] = frozenset()
    resumed: frozenset[NodeName] = frozenset()
    requests_seen: int = 0
    began: float | None = None
    ahead: float | None = None
    resizing: bool = False
    newest: int = 0


def rebased(record: Record, now: float) -> Record:
    """Return a record whose times are not later than `now`: after a reboot the clock of the loop starts again, and the
    time of day says how long that took."""
    since = {what: min(at, now) for what, at in record.since.items()}
    retries = {key: replace(retry, at=min(retry.at, now)) for key, retry in record.retries.items()}
    return replace(record, since=since, retries=retries, ahead=None)
