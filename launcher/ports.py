"""The seams: what the driver needs of the world. Each is implemented by an adapter and by the imaginary fleet."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeAlias

from launcher.core.model.actions import (
    Answer,
    Claim,
    Enlist,
    Join,
    PowerOff,
    Prepare,
    Relocate,
    Reserve,
    Resize,
    Signal,
    Start,
    StartHead,
    Sweep,
    Unclaim,
    Unreserve,
    Verify,
)
from launcher.core.model.health import Health
from launcher.core.model.inventory import Access, Node, NodeName
from launcher.core.model.observation import Sighting, Unseen
from launcher.core.model.run import Run
from launcher.core.model.slots import MemberName
from launcher.probe.answer import Unknown
from launcher.probe.collect import Facts

Take: TypeAlias = Callable[[bytes], None]
"""Takes the pieces of a stream, in order."""

Stdin: TypeAlias = bytes | memoryview
"""What a command reads; a view of a file, where that is too large to be kept in memory."""


class Clock(Protocol):
    """Time for the loop."""

    def now(self) -> float:
        """Answer the time in seconds; never goes back, survives a restart of the controller on one boot."""

    def wall(self) -> float:
        """Answer the time of day (s since the epoch), which goes on while the machine is off; it may be set anew."""

    def wait(self, until: float, wake: Callable[[], bool]) -> None:
        """Return at `until`, or earlier, as soon as `wake()` is true."""


class Nodes(Protocol):
    """The machines of runs. One method for each action; each answers, never raises for one node, has a deadline.

    All are safe to call from several threads, for different nodes at once.
    """

    def look(self, run: Run) -> Sighting:
        """Answer what exists of the run on each of its nodes and on its head, all asked at once, within about a second.

        Who does not answer keeps its last view for 3 s and is then unseen; the first look at a run may take 5 s. A view
        is never older than the answer to an action on its node.
        """

    def claim(self, run: Run, action: Claim) -> Answer:
        """Take the node's lease and start its keeper; HELD names who has it and since when."""

    def prepare(self, run: Run, action: Prepare) -> Answer:
        """Put runtime, scripts, secrets and workdir on the node and start its setup."""

    def start_head(self, run: Run, action: StartHead) -> Answer:
        """Start the Ray head and the supervisor; DONE when `ray start` was begun."""

    def join(self, run: Run, action: Join) -> Answer:
        """Start the raylet of a seat; DONE when `ray start` was begun, its end is seen by `look`."""

    def reserve(self, run: Run, action: Reserve) -> Answer:
        """Ask Ray for the slice's placement group; DONE when asked, its state is seen by `look`."""

    def unreserve(self, run: Run, action: Unreserve) -> Answer:
        """Remove the slice's placement group."""

    def verify(self, run: Run, action: Verify) -> Answer:
        """Answer with the bundles of the slice as Ray has them now."""

    def start(self, run: Run, action: Start) -> Answer:
        """Start the ranks of a gang for an epoch; DONE when each has begun."""

    def signal(self, run: Run, action: Signal) -> Answer:
        """Send the stop signal to the ranks on a node."""

    def sweep(self, run: Run, action: Sweep) -> Answer:
        """Kill by marker at a level; KILLED when two scans found nothing."""

    def unclaim(self, run: Run, action: Unclaim) -> Answer:
        """Kill all of the run on a unit, stop its keeper, let go of the lease; KILLED with proof."""

    def power_off(self, run: Run, action: PowerOff) -> Answer:
        """Run the inventory's `fence_command` for a node on this machine; POWERED_OFF where it ended with 0."""

    def inspect(self, run: Run, node: NodeName) -> Health | Unseen:
        """Answer what a node shows of its own health since the run began there, within the time of its slowest probe;
        its `at` is left 0 for the caller, who has the clock."""

    def read_log(self, run: Run, node: NodeName, log: "LogName", offset: int) -> "LogPart":
        """Answer what stands in a log from a byte offset on (negative: counted from the end), 1 MiB at most."""

    def exec_command(self, run: Run, node: NodeName, command: "Command", hear: "Hear") -> int:
        """Run a command beside a rank until it ends, and pass on what it writes; answer its exit status.

        It has the rank's variables and folder, but no secrets and no stdin; what it leaves running ends with it.
        RemoteError where it cannot be begun, is over its time, or is lost: nothing of it is left then.
        """

    def stop_command(self, run: Run, node: NodeName, command: "Command") -> None:
        """End a command and all that it started; RemoteError where the node cannot be asked."""

    def fetch(self, run: Run, node: NodeName, path: str, take: Take) -> tuple[str, ...]:
        """Send a file or folder of a node to `take`, as a tar stream; answer what was left out, and why.

        `path` is relative to the ranks' folder, absolute, or begins with `~/`. RemoteError where there is no such file.
        """

    def visit(self, run: Run, node: NodeName, member: MemberName | None) -> tuple[str, ...]:
        """Answer the program, with its arguments, that opens a terminal there; LaunchError where there is none."""

    def close(self) -> None:
        """Let go of connections; the nodes go on."""


class Allotter(Protocol):
    """Who gives a run more nodes, or others, while it goes on: each in one transaction with its claims."""

    def enlist(self, run: Run, action: Enlist) -> Answer:
        """Give a slice one more spare of its own rack and domain; FAILED with words where none is free."""

    def relocate(self, run: Run, action: Relocate) -> Answer:
        """Place a slice again; FAILED with the shortfall's words where it fits nowhere."""

    def resize(self, run: Run, action: Resize) -> Answer:
        """Make a run what it is to become; DONE also where it is that already."""


class Listener(Protocol):
    """Who is told how far a question to many nodes has come; always by the thread that asks."""

    def asking(self, nodes: Sequence[NodeName]) -> None:
        """Take note that these nodes are asked from now on."""

    def heard(self, node: NodeName, *, answered: bool) -> None:
        """Take note that a node has answered, or will not."""


class Prober(Protocol):
    """The facts of machines, before anything of a run is there. Changes nothing on them."""

    def probe(self, nodes: Sequence[Node], listener: Listener) -> Mapping[NodeName, Facts | Unknown]:
        """Answer what is known of each node, all asked at once, each within its own time; never raises for one."""

    def close(self) -> None:
        """Let go of connections."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogName:
    """Which log of a node: of a rank and epoch (0: the newest), or of its provisioning where `member` is None."""

    member: MemberName | None = None
    epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPart:
    """A piece of a log, the byte offset after it, and the epoch that it is of."""

    data: bytes
    next_offset: int
    epoch: int


class Stream(Enum):
    """What a program writes to."""

    OUT = "o"
    ERR = "e"


Hear: TypeAlias = Callable[[Stream, bytes], None]
"""Takes what a command writes, piece by piece, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command for a node of a run. `token` names it, unique in the run; `member` is the rank that it stands beside.

    `timeout` is in seconds; None: it may last as long as the run.
    """

    token: str
    argv: tuple[str, ...]
    member: MemberName | None = None
    timeout: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """How a remote command ended: exit status (128 + n for a signal), stdout and stderr."""

    status: int
    stdout: bytes
    stderr: bytes


class Talk(Protocol):
    """A program on a machine that is spoken to as long as both live. One thread reads, others may send."""

    def send(self, data: bytes) -> None:
        """Send to the program's stdin; that it has gone is told to who reads."""

    def read(self) -> bytes:
        """Answer what it has written to stdout, as soon as there is something; nothing once it is over."""

    def last_words(self) -> str:
        """Answer why it is over."""

    def give_up(self) -> None:
        """Take the connection for dead: nothing else is begun on it."""

    def close(self) -> None:
        """Hang up; a program that reads its stdin ends."""


class Shell(Protocol):
    """Commands and files on one machine. Raises RemoteError where the machine cannot be reached in time."""

    def run(
        self, at: Access, argv: Sequence[str], *, stdin: Stdin = b"", timeout: float, take: Take | None = None
    ) -> Completed:
        """Run a command to its end, within `timeout` seconds; nothing of it is left on a time-out.

        With `take`, stdout goes there as it comes and is not kept. A LaunchError that it raises ends the command.
        """

    def put(self, at: Access, folder: str, files: Mapping[str, tuple[bytes, int]], *, timeout: float) -> None:
        """Write files (relative path -> content, mode) below a folder that is made 0700, each by rename."""

    def converse(self, at: Access, argv: Sequence[str], *, timeout: float, knock: float) -> Talk:
        """Start a program to speak with, within `timeout` seconds; a machine whose first packet takes longer than
        `knock` seconds is given up earlier."""

    def terminal(self, at: Access, argv: Sequence[str]) -> tuple[str, ...]:
        """Answer the program, with its arguments, that runs a command there at the terminal of whoever becomes it."""

    def close(self) -> None:
        """Let go of connections."""
