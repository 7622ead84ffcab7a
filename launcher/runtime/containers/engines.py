"""The engines that run containers, by name, and what each of them has to do."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ..environment import ENGINES, MARK

_USERS = ("HOME", "USER", "TMPDIR", "XDG_RUNTIME_DIR")
TAIL = 4096
MOST = 4 * 1024 * 1024
"""Bytes that a client may answer; what it says of an image is some 10 KB."""
ASK_S = 30.0
RUN_LABEL, PLACE_LABEL, GROUP_LABEL = "nvlaunch.run", "nvlaunch.place", "nvlaunch.group"


class EngineError(Exception):
    """An engine did not do what it was asked; the message is for people. `hung`: it did not answer at all."""

    def __init__(self, message: str, *, hung: bool = False) -> None:
        super().__init__(message)
        self.hung = hung


@dataclass(frozen=True)
class Creation:
    """A container to make. `limits` are soft and hard ones by name, `devices` paths, `mounts` ready for the engine.

    What is mounted later below a source in `followed` is to be seen inside too.
    """

    name: str
    image: str
    run: str
    place: str
    group: str
    mark: str
    user: str
    groups: tuple[int, ...]
    program: tuple[str, ...]
    mounts: tuple[tuple[str, str, bool], ...]
    followed: frozenset[str]
    limits: tuple[tuple[str, int, int], ...]
    devices: tuple[str, ...]
    gpus: bool
    options: tuple[str, ...]


class ContainerEngine(Protocol):
    """What nvlaunch needs of an engine. Each method raises EngineError."""

    def local(self, image: str) -> tuple[str, str] | None:
        """Return the id of a local image and its digest in its registry, empty without; None where it is not here."""

    def pull(self, image: str, stage: Callable[[str], None], seconds: float) -> None:
        """Get an image from its registry; `stage` is told how far it is."""

    def load(self, path: str, seconds: float) -> str:
        """Load the archive of an image; return its id."""

    def create(self, asked: Creation) -> None:
        """Make a container and start it."""

    def start(self, name: str) -> bool:
        """Start a container that has stopped; False where there is none of that name."""

    def process(self, name: str) -> tuple[int, str]:
        """Return the number of the first process of a container, 0 where it does not run, and the container's id."""

    def enter(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], *, log: str = "", terminal: bool = False
    ) -> list[str]:
        """Return the command that runs a program in a container; with a `log`, nobody waits for the program."""

    def discard(self, name: str, seconds: float) -> None:
        """Remove the container of this name, running or not."""

    def remove(self, run: str, place: str, seconds: float) -> list[str]:
        """Remove the containers of a run and place; return those that still run."""


@dataclass(frozen=True)
class Client:
    """The command of an engine, with what it needs to know of the node."""

    words: tuple[str, ...]
    env: Mapping[str, str]

    def run(self, *argv: str, seconds: float = ASK_S, mark: str = "") -> str:
        """Return what the client writes; EngineError where it fails or does not end in time."""
        return told([*self.words, *argv], {**self.env, **({MARK: mark} if mark else {})}, seconds)

    def follow(self, *argv: str, line: Callable[[str], None], seconds: float) -> None:
        """Run the client for long; `line` is told each line that it writes."""
        try:
            process = subprocess.Popen(
                [*self.words, *argv],
                env=dict(self.env),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            message = f"`{self.words[0]}` cannot be started: {(error.strerror or str(error)).lower()}"
            raise EngineError(message) from None
        assert process.stdout
        deadline, rest, tail = time.monotonic() + seconds, b"", b""
        with process, process.stdout as source:
            poll = select.poll()
            poll.register(source, select.POLLIN)
            while True:
                if not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                    process.kill()
                    raise EngineError(f"`{self.words[0]} {argv[0]}` did not end within {seconds:.0f} s", hung=True)
                part = os.read(source.fileno(), 65536)
                if not part:
                    break
                tail = (tail + part)[-TAIL:]
                *whole, rest = (rest + part).split(b"\n")
                rest = rest[-TAIL:]
                for one in whole:
                    line(one.decode(errors="replace"))
        if process.returncode != 0:
            raise EngineError(last_line(tail) or f"`{self.words[0]} {argv[0]}` ended with {process.returncode}")


def told(argv: Sequence[str], env: Mapping[str, str], seconds: float) -> str:
    """Return what the client of an engine writes; EngineError where it fails, does not end in time, or writes too much.

    Of its errors only the end is kept.
    """
    name = argv[0]
    try:
        process = subprocess.Popen(
            argv, env=dict(env), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise EngineError(f"`{name}` cannot be started: {(error.strerror or str(error)).lower()}") from None
    assert process.stdout
    assert process.stderr
    deadline, output, errors = time.monotonic() + seconds, b"", b""
    with process, process.stdout as out, process.stderr as err:
        poll = select.poll()
        for stream in (out, err):
            poll.register(stream, select.POLLIN)
        open_ones = {out.fileno(), err.fileno()}
        while open_ones:
            ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            if not ready or len(output) > MOST:
                process.kill()
                what = f"writes more than {MOST} bytes" if ready else f"has not answered within {seconds:.0f} s"
                raise EngineError(f"`{name}` {what}", hung=not ready)
            for handle, _ in ready:
                part = os.read(handle, 65536)
                if not part:
                    poll.unregister(handle)
                    open_ones.discard(handle)
                elif handle == out.fileno():
                    output += part
                else:
                    errors = (errors + part)[-TAIL:]
        try:
            process.wait(max(0.1, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            raise EngineError(f"`{name}` has not answered within {seconds:.0f} s", hung=True) from None
    if process.returncode != 0:
        raise EngineError(last_line(errors) or f"`{' '.join(argv[:2])}` ended with {process.returncode}")
    return output.decode(errors="replace").strip()


def last_line(text: bytes) -> str:
    """Return the last line of what a client says that is no advice."""
    lines = [line.strip() for line in text.decode(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("See '", "Run '", "Error: failed to start containers"))]
    return told[-1][:500] if told else ""


def variables(base: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of an engine's client, out of those of the node's user."""
    kept = {name: value for name, value in base.items() if name.startswith(ENGINES) or name in _USERS}
    path = f"{base.get('PATH', '')}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    runtime = f"/run/user/{os.getuid()}"  # where the engine of a user without root keeps what it knows
    if "XDG_RUNTIME_DIR" not in kept and os.path.isdir(runtime):
        kept["XDG_RUNTIME_DIR"] = runtime
    return {**kept, "PATH": path.lstrip(":"), "LANG": "C.UTF-8"}


def engine(name: str, base: Mapping[str, str]) -> ContainerEngine:
    """Return an engine by name, with the variables of the node's user; EngineError for one that nobody knows."""
    from . import apptainer, docker, enroot, podman

    known: dict[str, Callable[[Mapping[str, str]], ContainerEngine]] = {
        "docker": docker.Docker,
        "podman": podman.Podman,
        "enroot": enroot.Enroot,
        "apptainer": apptainer.Apptainer,
    }
    if name not in known:
        raise EngineError(f"containers of `{name}` are not supported")
    return known[name](variables(base))
