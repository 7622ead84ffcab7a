"""Download of one path from several ranks at once, with progress."""

import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from pathlib import Path

from launcher.cli.output.progress import LiveLine
from launcher.cli.untar import EXISTS, Received, Unpacker
from launcher.core.model.run import Run
from launcher.core.model.text import count, data_size
from launcher.drive.targets import NodeTarget
from launcher.errors import LaunchError
from launcher.ports import Nodes

FAN_OUT = 16
POLL_S = 0.2
MAX_REFUSED = 5
"""How many refused files of a rank are named."""


class Download:
    """One path of several ranks, each into a folder of its own below `into`.

    `left_out` is what the nodes did not send, `failed` what was not stored here, each by rank; `exists_here` whether
    some of that was because of an existing file.
    """

    def __init__(
        self, nodes: Nodes, run: Run, targets: Sequence[NodeTarget], path: str, into: Path, *, force: bool
    ) -> None:
        self.left_out: list[tuple[str, str]] = []
        self.failed: list[tuple[str, str]] = []
        self.exists_here = False
        self._nodes = nodes
        self._run = run
        self._path = path
        self._into = into
        self._force = force
        self._over = threading.Event()
        self._received = {target: Received() for target in targets}

    def run(self) -> None:
        """Download everything; errors are in `failed`. Ctrl-C leaves no partial file."""
        pool = ThreadPoolExecutor(FAN_OUT, thread_name_prefix="download")
        try:
            with LiveLine() as line:
                ends = {pool.submit(self._one, target, part): target for target, part in self._received.items()}
                while wait(ends, POLL_S).not_done:
                    line.show(self.summary())
        finally:
            self._over.set()
            pool.shutdown(wait=False, cancel_futures=True)
        for end, target in ends.items():
            self._conclude(end, target)

    def summary(self) -> str:
        """Return how much was stored."""
        files = sum(part.files for part in self._received.values())
        size = sum(part.size for part in self._received.values())
        return f"{count(files, 'file')}, {data_size(size)}, in `{self._into}`"

    def _folder(self, target: NodeTarget) -> Path:
        member = target.member
        assert member is not None  # a spare has no rank to download from
        group = self._into if len(self._run.task.groups) == 1 else self._into / member.group
        return group / str(member.rank)

    def _one(self, target: NodeTarget, received: Received) -> tuple[str, ...]:
        """Download from one rank.

        Return what its node left out. The sender has a thread of its own.
        """
        reading, writing = os.pipe()
        unpacker = Unpacker(self._folder(target), received, force=self._force)
        sent: Future[tuple[str, ...]] = Future()
        sender = threading.Thread(target=self._send, args=(target, writing, sent), daemon=True, name="fetch")
        sender.start()
        failure: LaunchError | None = None
        with os.fdopen(reading, "rb") as stream:
            try:
                unpacker.unpack(stream)
            except LaunchError as error:
                failure = error
        try:
            left_out = sent.result()
        except _StoppedHereError:
            left_out = ()
        if failure is not None:
            raise failure
        return left_out

    def _send(self, target: NodeTarget, writing: int, sent: "Future[tuple[str, ...]]") -> None:
        def take(part: bytes) -> None:
            if self._over.is_set():
                raise _StoppedHereError("interrupted")
            try:
                with memoryview(part) as view:
                    at = 0
                    while at < len(view):
                        at += os.write(writing, view[at:])
            except BrokenPipeError:
                raise _StoppedHereError("the reader has stopped") from None

        try:
            sent.set_result(self._nodes.fetch(self._run, target.node, self._path, take))
        except BaseException as error:  # noqa: BLE001  raised again by whoever waits for the result
            sent.set_exception(error)
        finally:
            os.close(writing)

    def _conclude(self, end: "Future[tuple[str, ...]]", target: NodeTarget) -> None:
        try:
            self.left_out += [(target.label, line) for line in end.result()]
        except LaunchError as error:
            self.failed.append((target.label, error.message))
        received = self._received[target]
        refused = received.refused
        self.failed += [(target.label, message) for message in refused[:MAX_REFUSED]]
        if len(refused) > MAX_REFUSED:
            self.failed.append((target.label, f"and {len(refused) + received.more - MAX_REFUSED} more"))
        self.exists_here = self.exists_here or any(message.endswith(EXISTS) for message in refused)


class _StoppedHereError(LaunchError):
    """The transfer was stopped on this side, which reports why itself."""
