"""The seams: what the driver needs of the world.

Each is implemented by a real adapter and by the imaginary fleet.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from launcher.core.checks.results import CheckedNode, CheckGroup
from launcher.core.model.actions import AllotAction, NodeAction
from launcher.core.model.inventory import Access, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Sighting, Unseen
from launcher.core.model.receipt import Answer
from launcher.core.model.run import MemberName, Run
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

Take: TypeAlias = Callable[[bytes], None]
"""Takes the pieces of a stream, in order."""

Stdin: TypeAlias = bytes | memoryview
"""What a command reads; a view of a file, where that is too large to be kept in memory."""


class Clock(Protocol):
    """Time for the loop."""

    def now(self) -> float:
        """Return the time (s).

        It never goes back, and goes on when a controller is restarted on one boot.
        """

    def wall(self) -> float:
        """Return the time of day (s since the epoch).

        It goes on while the machine is off; it may be set.
        """

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        """Return at `until`, or earlier, as soon as `wake()` is true."""


class Nodes(Protocol):
    """The machines of runs.

    Safe to call from several threads, for different nodes at once.
    """

    def look(self, run: Run) -> Sighting:
        """Return what exists of a run on its nodes and its head, within about a second.

        All are asked at once. A node that does not answer keeps its last view for 3 s and is then unseen; the first
        look at a run may take 5 s. A view is never older than the answer to an action on its node. A node that answers
        otherwise than an agent does is unseen, and the view says why.
        """

    def perform(self, run: Run, action: NodeAction) -> Answer:
        """Carry out an action and return its answer, within a deadline.

        Never raises for one node.

        DONE means: the lease is ours (Acquire; HELD names the holder, and since when), the setup was started (Prepare),
        `ray start` was started (StartHead, Join), Ray was asked (Park, Reserve, Unreserve), Ray has answered with the
        bundles (Verify), every rank has started (Start), the signal was sent (Signal). Kill and Release end as KILLED,
        with two empty scans as proof, PowerOff as POWERED_OFF where the `fence_command` ended with 0, and PowerQuery
        where the `power_query` did. Ends that take longer, as of a setup or a raylet, are seen by `look`.
        """

    def together(self) -> AbstractContextManager[None]:
        """Return a block in which many actions are begun: what they change may be kept at its end only."""

    def inspect(self, run: Run, node: NodeName) -> Health | Unseen:
        """Return a node's health since the run began there.

        Takes as long as its slowest probe; `at` is left 0 for the caller, who has the clock.
        """

    def read_log(self, run: Run, node: NodeName, log: "LogName", offset: int) -> "LogPart":
        """Return a part of a log from a byte offset on, 1 MiB at most.

        A negative offset is counted from the end.
        """

    def exec_command(self, run: Run, node: NodeName, command: "Command", hear: "Hear") -> int:
        """Run a command beside a rank, pass on its output, return its exit status.

        It has the rank's variables and folder, but no secrets and no stdin; what it leaves running ends with it.
        RemoteError if it cannot start, takes too long or is lost: nothing of it is left then.
        """

    def stop_command(self, run: Run, node: NodeName, command: "Command") -> None:
        """End a command and all that it started; RemoteError for an unreachable node."""

    def fetch(self, run: Run, node: NodeName, path: str, take: Take) -> tuple[str, ...]:
        """Send a file or folder to `take`, as a tar stream; return what was left out.

        `path` is relative to the ranks' folder, absolute, or begins with `~/`. RemoteError if there is no such file.
        """

    def visit(self, run: Run, node: NodeName, member: MemberName | None) -> tuple[str, ...]:
        """Return the program and arguments that open a terminal on a node.

        LaunchError where there is none.
        """

    def close(self) -> None:
        """Close connections; the nodes go on."""


class Allotter(Protocol):
    """Gives a run more or other nodes while it goes on.

    Each change is one transaction with the claims of its nodes.
    """

    def perform(self, run: Run, action: AllotAction) -> Answer:
        """Carry out an action; FAILED where no node is free, or the slices fit nowhere.

        AddSpare gives a slice one more spare of its own rack and domain, ReturnSpare takes a node out of the run,
        Relocate places a slice again, Resize gives the run the slices of its target or drops one, Grow claims nodes for
        a target with more. An action that was done is DONE when it comes again.
        """

    def room(self, run: Run) -> frozenset[str]:
        """Return the groups that could have one more slice now."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LearntKey:
    """A host key that was accepted at the first contact, and the file that keeps it."""

    host: str
    fingerprint: str
    kept: str


class Listener(Protocol):
    """Is told how far a question to many nodes is, by the thread that asks."""

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Note that these nodes are asked from now on."""

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Note that a node has answered, or will not."""

    def learnt(self, keys: Sequence[LearntKey]) -> None:
        """Note keys of hosts that nothing was known of."""


class Prober(Protocol):
    """Reads facts of machines before a run is there; changes nothing on them."""

    def probe(
        self, nodes: Sequence[Node], listener: Listener, needs: TaskNeeds = NOTHING
    ) -> Mapping[NodeName, Facts | Unknown]:
        """Return the facts of each node; all are asked at once, each with a deadline.

        In `folders` of `needs` a file is made and removed. Never raises for one node.
        """

    def close(self) -> None:
        """Close connections."""


class Checker(Protocol):
    """Runs checks on nodes that no run uses. Safe to call from several threads, for different nodes at once."""

    def check(self, group: CheckGroup, stopped: Callable[[], bool]) -> tuple[CheckedNode, ...]:
        """Return the result of each node, in order, within the check's time limit and a minute.

        Never raises for one node. Where one node cannot begin, the check ends on the others too. Once `stopped()`, or
        when the launcher is gone, it ends everywhere; nothing of it is left on any node.
        """

    def close(self) -> None:
        """Close connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """Which log of a node: of a rank's attempt, or of its provisioning.

    `attempt` 0 is the newest; without `member` it is the log of the provisioning.
    """

    member: MemberName | None = None
    attempt: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """A piece of a log, the byte offset after it, and its attempt.

    `exists` is False where the node does not have the log.
    """

    data: bytes
    next_offset: int
    attempt: int
    exists: bool = True


class Stream(Enum):
    """What a program writes to."""

    OUT = "o"
    ERR = "e"


Hear: TypeAlias = Callable[[Stream, bytes], None]
"""Takes what a command writes, piece by piece, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command for a node of a run.

    `token` is unique in the run; `member` is the rank that it runs beside. `timeout` is in seconds; None: it may last
    as long as the run.
    """

    token: str
    argv: tuple[str, ...]
    member: MemberName | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a remote command ended: exit status (128 + signal), stdout and stderr."""

    status: int
    stdout: bytes
    stderr: bytes


class Talk(Protocol):
    """A program on a machine, and a connection to it.

    One thread reads, others may send.
    """

    def send(self, data: bytes) -> None:
        """Send to the program's stdin; if the program is gone, `read` says so."""

    def read(self) -> bytes:
        """Return what it has written to stdout, as soon as there is something.

        Nothing once it is over.
        """

    def last_words(self) -> str:
        """Return why the program has ended."""

    def give_up(self) -> None:
        """Take the connection for dead: nothing else starts on it."""

    def close(self) -> None:
        """Close the connection; a program that reads its stdin ends."""


class Shell(Protocol):
    """Commands and files on one machine.

    Raises RemoteError where the machine cannot be reached in time.
    """

    def run(
        self, at: Access, argv: Sequence[str], *, stdin: Stdin = b"", timeout: float, take: Take | None = None
    ) -> Completed:
        """Run a command to its end, within `timeout` seconds.

        Nothing of it is left on a time-out. With `take`, stdout goes there as it comes and is not kept. A LaunchError
        that `take` raises ends the command.
        """

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files below a folder that is made 0700, each by rename.

        `files` has content and mode by relative path.
        """

    def converse(self, at: Access, argv: Sequence[str], *, timeout: float, knock: float) -> Talk:
        """Start a program to talk to, within `timeout` seconds.

        A machine whose first packet takes longer than `knock` seconds is given up earlier.
        """

    def terminal(self, at: Access, argv: Sequence[str]) -> tuple[str, ...]:
        """Return the program and arguments that run a command there in a terminal."""

    def close(self) -> None:
        """Close connections."""
