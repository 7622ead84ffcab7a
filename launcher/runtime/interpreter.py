"""A Python environment for Ray on a node that has none.

Made once beside the runs, and shared by them: under a lock in a partial folder, tried, and put in place by a rename.
One that is there works, and two runs that want it at once make it once. Its name is a hash of what it was made of.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import environment, files, logs, stage, unpack
from .protocol_files import AgentSpec, InterpreterSpec

MAKE_S = 900.0
"""Seconds for all of it, waiting for another run included; Ray and what it needs are some 100 MB."""

NO_ENVIRONMENT = 78
MESSAGE = "making a Python environment"
"""What setup says of itself meanwhile."""

_PATIENCE = ("--retries", "1", "--timeout", "15")
_TRY = "import ray; print(ray.__version__)"


class MakingError(Exception):
    """No environment can be made here; the message is for people."""


class RayEnvironment:
    """The environment that an agent's spec asks for."""

    def __init__(self, folder: Path, spec: InterpreterSpec) -> None:
        self._folder = folder
        self._spec = spec
        # folder: ~/.nvlaunch/runs/RUN/PLACE
        self._base = folder.parents[2] / "env"
        self._wheels = self._find_wheels()
        made_of = [self.ray, os.path.realpath(sys.executable), sys.version, platform.machine(), self._source()]
        made_of += [spec["extra"]] if "extra" in spec else []
        self._home = self._base / hashlib.sha256(json.dumps(made_of).encode()).hexdigest()[:16]

    def _find_wheels(self) -> Path | None:
        """Return the folder of wheels; None without wheels.

        The one that is named, if this machine has it, else that of sent wheels.
        """
        spec = self._spec["wheels"]
        if spec is None:
            return None
        here = Path(spec["at"]).expanduser()
        return here if here.is_dir() or not spec["sent"] else self._folder / "wheels"

    @property
    def _sent(self) -> bool:
        return self._wheels == self._folder / "wheels"

    def _source(self) -> Any:
        """Return the names and contents of the wheels."""
        if self._wheels is None or self._sent:
            return self._spec["wheels"] and self._spec["wheels"]["sent"]
        try:
            return _contents(self._wheels)
        except OSError:
            return None  # making it will fail with the reason

    @property
    def ray(self) -> str:
        """Return the version of Ray in it."""
        return str(self._spec["ray"])

    @property
    def _requirement(self) -> str:
        return f"ray[{self._spec['extra']}]=={self.ray}" if "extra" in self._spec else f"ray=={self.ray}"

    @property
    def python(self) -> Path:
        """Return its interpreter."""
        return self._home / "bin" / "python"

    @property
    def made(self) -> bool:
        """Whether it exists."""
        return self.python.exists()

    @property
    def lacks_wheels(self) -> bool:
        """Whether it has to be made from wheels that have not been sent yet."""
        return self._sent and not self.made and not (self._folder / "wheels").exists()

    def make(self) -> None:
        """Make it, unless it exists; MakingError says why that is impossible."""
        deadline = time.monotonic() + MAKE_S
        try:
            self._base.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._lock.open("a") as lock:
                self._take(lock.fileno(), deadline)
                if not self.made:
                    self._make(self._partial, deadline)
        except OSError as error:
            where = error.filename or self._base
            raise MakingError(f"cannot write `{where}`: {(error.strerror or str(error)).lower()}") from error

    def forget(self) -> None:
        """Remove an unfinished one that no run is making."""
        if not (self._partial.exists() or self._scratch.exists()):
            return
        with contextlib.suppress(OSError), self._lock.open("a") as lock:
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
        """Return the temporary folder of pip and uv.

        They leave files there when they are killed.
        """
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
                    raise MakingError(f"another run has been making it for {MAKE_S:.0f} s{self._maker()}") from None
                pause.wait(0.2)
            else:
                os.ftruncate(lock, 0)
                os.pwrite(lock, f"{socket.gethostname()} (boot {_boot()})".encode(), 0)
                return

    def _maker(self) -> str:
        """Return the machine that makes it: a home may be shared by many."""
        with contextlib.suppress(OSError):
            return f", on {self._lock.read_text()}"
        return ""

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
        """Return the commands that make and try it.

        With `uv` where that is installed, else with `venv` and `pip`.
        """
        python, ray = str(partial / "bin" / "python"), self._requirement
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


def _contents(folder: Path) -> list[tuple[str, str]]:
    """Return the names and contents of wheels; OSError.

    The table of contents of a wheel is enough, which has a checksum of each file in it.
    """
    import zipfile

    found = []
    for path in sorted(path for path in folder.iterdir() if path.is_file()):
        try:
            with zipfile.ZipFile(path) as wheel:
                listed = json.dumps([(one.filename, one.CRC, one.file_size) for one in wheel.infolist()]).encode()
        except zipfile.BadZipFile:
            listed = path.read_bytes()
        found.append((path.name, hashlib.sha256(listed).hexdigest()[:16]))
    return found


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _named(argv: Sequence[str]) -> str:
    """Return the words of a command that tell it from the others."""
    words = [os.path.basename(argv[0]), *argv[1:]]
    return " ".join(word for word in words[: words.index("install") + 1 if "install" in words else 4] if word != "-Es")


def wanted(folder: Path, spec: AgentSpec) -> RayEnvironment | None:
    """Return the environment that an agent's spec asks for.

    None where the agent's own interpreter has Ray.
    """
    return RayEnvironment(folder, spec["interpreter"]) if spec["interpreter"] else None


def setup(folder: Path, environ: RayEnvironment, then: list[str]) -> int:
    """Make the environment, then become the command `then`, if there is one."""
    try:
        environ.make()
    except MakingError as error:
        print(f"cannot make a Python environment with Ray {environ.ray}: {error}")
        print("set `python:` to an interpreter with it, or `wheels:` to a folder of wheels, in the inventory")
        return NO_ENVIRONMENT
    finally:
        shutil.rmtree(folder / "wheels", ignore_errors=True)
        (folder / "wheels.manifest").unlink(missing_ok=True)
    stage.write(folder, "")
    if then:
        sys.stdout.flush()
        os.execvp(then[0], then)
    return 0


def run(folder: Path, environ: RayEnvironment, part: Sequence[str]) -> int:
    """Become a module of this package on the environment's interpreter.

    Waits until that exists.
    """
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
    """Make the environment of a run, or wait for it and use it.

    `setup FOLDER [COMMAND...]` and `run FOLDER PART...`.
    """
    folder = Path(argv[1])
    spec = files.agent_spec(folder)
    environ = wanted(folder, spec) if spec else None
    if environ is None:
        raise SystemExit("no environment was asked for")
    return setup(folder, environ, argv[2:]) if argv[0] == "setup" else run(folder, environ, argv[2:])
