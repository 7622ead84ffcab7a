"""Engines without a daemon, whose containers are processes and files of the user: enroot and Apptainer.

An image is one file. It is unpacked for each container, so that what `setup` writes there stays. The container is a
process that waits, in the namespaces of the container; network, IPC and PID namespace are those of the node. Records of
containers and files of images are ours, since these engines have no labels and know no digests.
"""

import contextlib
import fcntl
import os
import re
import select
import shutil
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import TypedDict, cast

from .. import files, procs
from ..environment import MARK
from .engines import Client, Creation, EngineError, last_line

CREATE_S = 1800.0
START_S = 60.0
END_S = 5.0
PART = 4 * 1024 * 1024
_PID_LINE = re.compile(rb"^nvlaunch-pid ([0-9]+)$", re.MULTILINE)

# In the container: it says its number, which is the node's own, and becomes the program that waits.
_TELL = 'echo "nvlaunch-pid $$"; exec "$@" >/dev/null 2>&1'
# Started so that nobody has to wait for it, and with no pipe of ours; what the engine says goes to the log.
_AWAY = 'log=$1; shift; exec setsid --fork "$@" </dev/null >>"$log" 2>&1'


class Kept(TypedDict):
    """The record of a container. `words` are those of the engine's command that starts or enters it."""

    run: str
    place: str
    mark: str
    words: list[str]
    program: list[str]
    pid: int
    start: int


class FileEngine(ABC):
    """What the two engines have in common."""

    PROGRAM = ""
    SUFFIXES: tuple[str, ...] = ("",)

    def __init__(self, env: Mapping[str, str]) -> None:
        self.client = Client((self.PROGRAM,), env)
        top = Path(env.get("HOME") or os.path.expanduser("~")) / ".nvlaunch"
        self.images = top / "images"
        self.records = top / "containers"
        self._resolved: dict[str, str] = {}

    # What each of them does in its own way.

    @abstractmethod
    def digest(self, image: str) -> str:
        """Return the digest of an image in its registry."""

    @abstractmethod
    def fetch(self, image: str, digest: str, to: Path, seconds: float, line: Callable[[str], None]) -> None:
        """Get an image of a registry as a file."""

    @abstractmethod
    def unpack(self, image: Path, name: str, asked: Creation) -> None:
        """Unpack an image for a container."""

    @abstractmethod
    def words(self, name: str, asked: Creation) -> list[str]:
        """Return the engine's options for a container; the name or the folder of the container is the last."""

    @abstractmethod
    def holding(self, kept: Kept, program: Sequence[str]) -> list[str]:
        """Return the command that starts a program as the container's first."""

    @abstractmethod
    def entering(self, kept: Kept, pid: int, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """Return the command that runs a program in a container."""

    @abstractmethod
    def erase(self, name: str, seconds: float) -> None:
        """Remove what was unpacked for a container; EngineError where that takes longer."""

    def local(self, image: str) -> tuple[str, str] | None:
        """Return the id of a local image, and its digest where that is known; what a tag means is asked each time."""
        digest = self._resolved.get(image) or image.rpartition("@")[2]
        if not digest.startswith("sha256:") or not self._file(digest).exists():
            return None
        return digest, "" if digest == image else digest

    def pull(self, image: str, stage: Callable[[str], None], seconds: float) -> None:
        """Get an image from its registry, by what its tag means there now."""
        digest = self.digest(image)
        if not re.fullmatch(r"sha256:[0-9a-f]{64}", digest):
            raise EngineError(f"`{self.PROGRAM}` did not say which content `{image}` has: {digest[:100]}")
        file = self._file(digest)
        with self._locked(f"{file.name}.lock"):
            if not file.exists():
                draft = file.with_name(f"{os.uname().nodename}.{os.getpid()}.{file.name}")
                try:
                    self.fetch(image, digest, draft, seconds, lambda text: stage(f"pulling `{image}`: {text[:200]}"))
                    os.replace(draft, file)
                finally:
                    draft.unlink(missing_ok=True)
        self._resolved[image] = digest

    def load(self, path: str, seconds: float) -> str:
        """Return the id of an archive: the hash of its content. It is not copied."""
        if not path.endswith(self.SUFFIXES):
            raise EngineError(f"`{self.PROGRAM}` needs an archive whose name ends with `{self.SUFFIXES[0]}`")
        content, until = sha256(), time.monotonic() + seconds
        try:
            with Path(path).open("rb") as archive:
                while part := archive.read(PART):
                    content.update(part)
                    if time.monotonic() > until:
                        raise EngineError(f"`{path}` could not be read within {seconds:.0f} s", hung=True)
            identity = f"sha256:{content.hexdigest()}"
            with self._locked("links.lock"):
                link = self._file(identity)
                if not link.exists():
                    link.unlink(missing_ok=True)
                    link.symlink_to(os.path.realpath(path))
        except OSError as error:
            raise EngineError(f"`{path}` cannot be read: {(error.strerror or str(error)).lower()}") from None
        return identity

    def create(self, asked: Creation) -> None:
        """Make a container and start it."""
        image = self._file(asked.image.rpartition("@")[2])
        if not image.exists():
            raise EngineError(f"`{image}` is not there any more")
        folder = self._record(asked.name)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        kept: Kept = {
            "run": asked.run,
            "place": asked.place,
            "mark": asked.mark,
            "words": self.words(asked.name, asked),
            "program": list(asked.program),
            "pid": 0,
            "start": 0,
        }
        files.write(folder / "kept.json", kept)
        self.unpack(image, asked.name, asked)
        files.write(folder / "whole", {})
        self._hold(asked.name, kept)

    def start(self, name: str) -> bool:
        """Start a container that has stopped; False where there is none of that name."""
        kept = self._kept(name)
        if kept is None or not (self._record(name) / "whole").exists():
            return False
        self._hold(name, kept)
        return True

    def process(self, name: str) -> tuple[int, str]:
        """Return the number of the first process of a container, 0 where it does not run, and the name as its id."""
        kept = self._kept(name)
        found = procs.find(kept["pid"]) if kept and kept["pid"] else None
        return (found.pid if kept and found and found.start == kept["start"] else 0), name

    def enter(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], *, log: str = "", terminal: bool = False
    ) -> list[str]:
        """Return the command that runs a program in a container."""
        del terminal  # the engine's command is in the foreground, on the terminal that it is given
        kept, (pid, _) = self._kept(name), self.process(name)
        if kept is None or not pid:
            raise EngineError("the container does not run")
        command = self.entering(kept, pid, argv, env)
        return ["sh", "-c", _AWAY, "nvlaunch", log, *command] if log else command

    def discard(self, name: str, seconds: float) -> None:
        """Remove the container of this name, running or not; EngineError where it still runs."""
        until = time.monotonic() + seconds
        if not self._ended(name, until):
            raise EngineError(f"`{name}` still runs")
        self._forget(name, until)

    def remove(self, run: str, place: str, seconds: float) -> list[str]:
        """Remove the containers of a run and place; return those that still run."""
        left, until = [], time.monotonic() + seconds
        for name in sorted(self._names()):
            kept = self._kept(name)
            if kept is None or (kept["run"], kept["place"]) != (run, place):
                continue
            if self._ended(name, until):
                self._forget(name, until)
            else:
                left.append(name)
        return left

    def _ended(self, name: str, until: float) -> bool:
        """End the process of a container; return whether it has ended."""
        found = procs.find(self.process(name)[0])
        if found is None:
            return True
        for number in (signal.SIGTERM, signal.SIGKILL):
            procs.send([found], number)
            if procs.await_end([found], min(END_S, max(0.1, until - time.monotonic()))):
                return True
        return False

    def _forget(self, name: str, until: float) -> None:
        self.erase(name, max(1.0, until - time.monotonic()))
        shutil.rmtree(self._record(name), ignore_errors=True)

    def _hold(self, name: str, kept: Kept) -> None:
        """Start the process of a container, and note which it is."""
        command = self.holding(kept, ["sh", "-c", _TELL, "nvlaunch", *kept["program"]])
        env = {**self.client.env, MARK: kept["mark"]}
        errors = self._record(name) / "said"
        with errors.open("wb") as said:
            try:
                begun = subprocess.Popen(
                    ["setsid", "--fork", *command],
                    env=env,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=said,
                )
            except OSError as error:
                raise EngineError(f"`setsid` cannot be started: {(error.strerror or str(error)).lower()}") from None
        pid = _told(begun, START_S)
        found = procs.find(pid) if pid else None
        if found is None:
            words = last_line(errors.read_bytes()[-4096:]) or "it needs a shell, `/bin/sh`"
            raise EngineError(f"`{self.PROGRAM}` has not started it: {words}", hung=pid is None)
        files.write(self._record(name) / "kept.json", {**kept, "pid": found.pid, "start": found.start})

    def _file(self, digest: str) -> Path:
        return self.images / f"{digest.replace(':', '-')}{self.SUFFIXES[0]}"

    def _record(self, name: str) -> Path:
        return self.records / self.PROGRAM / name

    def _names(self) -> list[str]:
        with contextlib.suppress(OSError):
            return os.listdir(self.records / self.PROGRAM)
        return []

    def _kept(self, name: str) -> Kept | None:
        return cast("Kept | None", files.read(self._record(name) / "kept.json"))

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        """Hold a lock: nodes with one home, and groups of a node, get an image once."""
        self.images.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (self.images / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def only_login_user(asked: Creation, program: str) -> bool:
    """Return whether a container's user is root of a user namespace; EngineError for one that is nobody's here."""
    user = asked.user.partition(":")[0]
    if user in (str(os.geteuid()), ""):
        return False
    if user in ("0", "root"):
        return True
    raise EngineError(
        f"`{program}` runs containers as the user of the login, or as `root` inside, not as `{asked.user}`"
    )


def _told(process: "subprocess.Popen[bytes]", seconds: float) -> int | None:
    """Return the number that a container's process says; 0 where it has ended without, None where it says nothing."""
    assert process.stdout
    deadline, text = time.monotonic() + seconds, b""
    with process, process.stdout as source:
        poll = select.poll()
        poll.register(source, select.POLLIN)
        while not (found := _PID_LINE.search(text)):
            if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                return None
            part = os.read(source.fileno(), 4096)
            if not part:
                return 0
            text = (text + part)[-65536:]
    return int(found[1])
