"""The Python environment for Ray of a user who has none on the node: made once, beside the runs, and shared by them.

It is made under a lock in a partial folder, tried, and shown by a rename: what is there works, and two runs that want
it at once make it once. Its name says what it was made of, so that another Ray or other wheels are another environment.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import environment, files, logs, unpack

MAKE_S = 900.0
"""Seconds for all of it, waiting for another run's attempt included; Ray and what it needs are some 100 MB."""

NO_ENVIRONMENT = 78
WORDS = "making a Python environment"
STAGE = "stage"
"""The file in a run's folder that says what its setup is about."""

_PATIENCE = ("--retries", "1", "--timeout", "15")
_TRY = "import ray; print(ray.__version__)"


class MakingError(Exception):
    """No environment can be made here; the message is for people."""


class Wanted:
    """The environment that the orders of an agent ask for."""

    def __init__(self, folder: Path, spec: dict[str, Any]) -> None:
        self._folder = folder
        self._spec = spec
        # folder: ~/.nvlaunch/runs/RUN/PLACE
        self._base = folder.parents[2] / "env"
        self._wheels = self._find_wheels()
        made_of = [self.ray, os.path.realpath(sys.executable), sys.version, platform.machine(), self._source()]
        self._home = self._base / hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]

    def _find_wheels(self) -> Path | None:
        """Return where the wheels are: in the folder that is named, if this machine has it, else where sent ones go."""
        if self._spec["wheels"] is None:
            return None
        here = Path(self._spec["wheels"]["at"]).expanduser()
        return here if here.is_dir() or not self._spec["wheels"]["sent"] else self._folder / "wheels"

    @property
    def _sent(self) -> bool:
        return self._wheels == self._folder / "wheels"

    def _source(self) -> Any:
        """Return what tells the wheels apart: names and sizes."""
        if self._wheels is None or self._sent:
            return self._spec["wheels"] and self._spec["wheels"]["sent"]
        try:
            return sorted([entry.name, entry.stat().st_size] for entry in os.scandir(self._wheels))
        except OSError:
            return None  # to make it will fail, and say why

    @property
    def ray(self) -> str:
        """Return the version of Ray that is to be in it."""
        return str(self._spec["ray"])

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self._home / "bin" / "python"

    @property
    def made(self) -> bool:
        """Whether it is there."""
        return self.python.exists()

    @property
    def lacks_wheels(self) -> bool:
        """Whether it has to be made, and the wheels for it have to be sent first."""
        return self._sent and not self.made and not (self._folder / "wheels").exists()

    def make(self) -> None:
        """Make it, unless it is there; MakingError says why that is impossible."""
        deadline = time.monotonic() + MAKE_S
        try:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock.open("w") as lock:
                self._take(lock.fileno(), deadline)
                if not self.made:
                    self._make(self._partial, deadline)
        except OSError as error:
            where = error.filename or self._base
            raise MakingError(f"cannot write `{where}`: {(error.strerror or str(error)).lower()}") from error

    def forget(self) -> None:
        """Remove what was begun and has nobody who goes on with it."""
        if not (self._partial.exists() or self._scratch.exists()):
            return
        with contextlib.suppress(OSError), self._lock.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._clear()

    def _clear(self) -> None:
        for half in (self._partial, self._scratch):
            shutil.rmtree(half, ignore_errors=True)

    @property
    def _partial(self) -> Path:
        return self._base / f".{self._home.name}.partial"

    @property
    def _scratch(self) -> Path:
        """Return where pip and uv put what they unpack: ended half-way, they leave it there."""
        return self._base / f".{self._home.name}.tmp"

    @property
    def _lock(self) -> Path:
        return self._base / f".{self._home.name}.lock"

    def _take(self, lock: int, deadline: float) -> None:
        pause = threading.Event()
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    raise MakingError(f"another run has been making it for {MAKE_S:.0f} s") from None
                pause.wait(0.2)
            else:
                return

    def _make(self, partial: Path, deadline: float) -> None:
        self._clear()
        self._scratch.mkdir(mode=0o700)
        try:
            for argv in self._commands(partial):
                self._run(argv, deadline)
            unpack.sync(self._base)
            partial.rename(self._home)
        finally:
            self._clear()

    def _commands(self, partial: Path) -> tuple[Sequence[str], ...]:
        """Return how it is made and tried: with `uv` where that is, else with what Python brings. No cache stays."""
        python, ray = str(partial / "bin" / "python"), f"ray=={self.ray}"
        source = ("--no-index", "--find-links", str(self._wheels)) if self._wheels else ()
        if uv := shutil.which("uv"):
            return (
                (uv, "venv", "--quiet", "--no-cache", "--python", sys.executable, str(partial)),
                (uv, "pip", "install", "--no-cache", "--python", python, *source, ray),
                (python, "-Es", "-c", _TRY),
            )
        pip = ("-m", "pip", "install", "--no-input", "--disable-pip-version-check", "--no-cache-dir", *_PATIENCE)
        return (
            (sys.executable, "-Es", "-m", "venv", str(partial)),
            (python, *pip, *source, ray),
            (python, "-Es", "-c", _TRY),
        )

    def _run(self, argv: Sequence[str], deadline: float) -> None:
        own = {"UV_HTTP_TIMEOUT": "15", "TMPDIR": str(self._scratch)}
        env = {**environment.user(os.environ), **self._spec["env"], **own}
        print("+", *argv, flush=True)
        with subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
            try:
                code = process.wait(max(0.0, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                raise MakingError(f"`{_named(argv)}` did not end within {MAKE_S:.0f} s") from None
        if code != 0:
            raise MakingError(f"`{_named(argv)}` ended with {code}")


def _named(argv: Sequence[str]) -> str:
    """Return a command by the words that tell it from the others."""
    words = [os.path.basename(argv[0]), *argv[1:]]
    return " ".join(word for word in words[: words.index("install") + 1 if "install" in words else 4] if word != "-Es")


def wanted(folder: Path, orders: dict[str, Any]) -> Wanted | None:
    """Return the environment that an agent's orders ask for; None where its own interpreter has Ray."""
    spec = orders.get("interpreter")
    return Wanted(folder, spec) if spec else None


def setup(folder: Path, environ: Wanted, then: list[str]) -> int:
    """Make the environment, then become the user's setup, if there is any."""
    try:
        environ.make()
    except MakingError as error:
        print(f"no environment with Ray {environ.ray} can be made here: {error}")
        print("set `python:` to an interpreter with it, or `wheels:` to a folder of wheels, in the inventory")
        return NO_ENVIRONMENT
    finally:
        shutil.rmtree(folder / "wheels", ignore_errors=True)
        (folder / "wheels.manifest").unlink(missing_ok=True)
    (folder / STAGE).unlink(missing_ok=True)
    if then:
        sys.stdout.flush()
        os.execvp(then[0], then)
    return 0


def run(folder: Path, environ: Wanted, part: Sequence[str]) -> int:
    """Become a part of this package on the environment's interpreter, once that is made."""
    deadline, pause = time.monotonic() + MAKE_S, threading.Event()
    while not environ.made:
        ended = files.read(folder / "setup.json")
        if (ended and ended["code"] != 0) or time.monotonic() >= deadline:
            print(*logs.tail(folder / "log" / "provision.log"), sep="\n")
            return NO_ENVIRONMENT
        pause.wait(0.2)
    package = str(Path(__file__).resolve().parent)
    python = str(environ.python)
    return os.execv(python, [python, "-Es", package, *part])


def main(argv: list[str]) -> int:
    """`setup FOLDER [COMMAND...]` makes the environment of a run; `run FOLDER PART...` waits for it and uses it."""
    folder = Path(argv[1])
    environ = wanted(folder, files.read(folder / "agent.json") or {})
    if environ is None:
        raise SystemExit("no environment was asked for")
    return setup(folder, environ, argv[2:]) if argv[0] == "setup" else run(folder, environ, argv[2:])
