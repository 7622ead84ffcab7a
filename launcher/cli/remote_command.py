"""One command on many nodes at once.

Output with labels, exit statuses, and an early stop.
"""

import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace

from launcher.cli.output.console import say, show_bytes
from launcher.core.model.nodeset import fold
from launcher.core.model.run import Run
from launcher.drive.targets import NodeTarget
from launcher.errors import JobFailedError, LaunchError
from launcher.ports import Command, Nodes, Stream

FAN_OUT = 64


class RemoteCommand:
    """A command on some targets of a run."""

    def __init__(self, nodes: Nodes, run: Run, targets: Sequence[NodeTarget], command: Command) -> None:
        self._nodes = nodes
        self._run = run
        self._targets = targets
        self._command = command
        self._lock = threading.Lock()
        self._rest: dict[tuple[NodeTarget, Stream], bytes] = {}
        self._failed: dict[NodeTarget, str] = {}
        self._begun: set[NodeTarget] = set()
        self._pool = ThreadPoolExecutor(min(FAN_OUT, len(targets)), thread_name_prefix="exec")
        self._stopping = False

    def run(self) -> None:
        """Run the command on all targets, to its end.

        JobFailedError, with exit statuses, where it failed.
        """
        done = [self._pool.submit(self._one, target) for target in self._targets]
        wait(done)
        self._pool.shutdown()
        for future in done:
            future.result()  # raises where stdout was closed, or for a bug
        if self._failed:
            what = f"`{self._command.argv[0]}` failed on {self._count()}: {self._failures()}"
            raise JobFailedError(what, hints=shell_hints(self._command.argv))

    def stop(self) -> Iterator[str]:
        """Stop the command on all targets.

        Return a message for each where that may have failed.
        """
        self._stopping = True
        with self._lock:
            running = sorted(self._begun, key=lambda target: target.label)
        if not running:
            return
        say(f"stopping `{self._command.argv[0]}` on {fold(target.label for target in running)}")
        with ThreadPoolExecutor(min(FAN_OUT, len(running)), thread_name_prefix="stop") as pool:
            stops = [(target, pool.submit(self._stop, target)) for target in running]
            for target, stop in stops:
                if message := stop.result():
                    yield f"{target.label}: {message}"
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _stop(self, target: NodeTarget) -> str | None:
        try:
            self._nodes.stop_command(self._run, target.node, self._command_for(target))
        except LaunchError as error:
            return error.message
        return None

    def _one(self, target: NodeTarget) -> None:
        with self._lock:
            if self._stopping:
                return
            self._begun.add(target)
        try:
            status = self._nodes.exec_command(
                self._run,
                target.node,
                self._command_for(target),
                lambda stream, part: self._hear(target, stream, part),
            )
            if status:
                self._failed[target] = f"exited with {status}"
        except LaunchError as error:
            self._failed[target] = error.message
        finally:
            with self._lock:
                self._begun.discard(target)
            for stream in Stream:
                if self._rest.get((target, stream)):
                    self._hear(target, stream, b"\n")

    def _command_for(self, target: NodeTarget) -> Command:
        return replace(self._command, member=target.member.name if target.member else None)

    def _hear(self, target: NodeTarget, stream: Stream, part: bytes) -> None:
        """Write output: of one target unchanged, of several whole lines with their label."""
        if len(self._targets) == 1:
            self._write(stream, part)
            return
        whole, line_end, rest = (self._rest.get((target, stream), b"") + part).rpartition(b"\n")
        self._rest[target, stream] = rest
        if line_end:
            label = f"[{target.label}] ".encode()
            self._write(stream, b"".join(label + line + b"\n" for line in whole.split(b"\n")))

    def _write(self, stream: Stream, data: bytes) -> None:
        with self._lock:
            if stream is Stream.OUT:
                show_bytes(data)
            else:
                sys.stderr.buffer.write(data)
                sys.stderr.buffer.flush()

    def _count(self) -> str:
        if len(self._targets) == 1:
            return f"`{self._targets[0].label}`"
        return f"{len(self._failed)} of {len(self._targets)}"

    def _failures(self) -> str:
        """Return the failures; equal ones share a message."""
        alike: dict[str, list[str]] = {}
        for target in self._targets:
            if target in self._failed:
                alike.setdefault(self._failed[target], []).append(target.label)
        if len(self._targets) == 1:
            return next(iter(alike))
        return "; ".join(f"{fold(labels)}: {message}" for message, labels in alike.items())


def shell_hints(argv: Sequence[str]) -> tuple[str, ...]:
    """Return the hint for a whole command line in one word, which is not the name of a program."""
    if len(argv) > 1 or not any(one.isspace() for one in argv[0]):
        return ()
    return ("no shell interprets the command: write `-- sh -c '...'`, or give each argument by itself",)
