"""A host from within: its processes and files, without SSH. Nothing here breaks anything."""

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tests.rig.errors import RigError
from tests.rig.identity import birth
from tests.rig.layer import accounts
from tests.rig.plan import Plan, Slot

OWN_MOUNTS = ("/tmp", "/run", "/dev/shm")
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Process:
    """A process of a host; `pid` is its number on this machine, `inner` the one that the host sees."""

    pid: int
    inner: int
    argv: tuple[str, ...]
    state: str
    uid: int


class Ground(Protocol):
    """What a host needs of its rig."""

    plan: Plan
    python: str | None
    driver: bool

    def ask(self, do: str, **what: Any) -> dict[str, Any]:
        """Have the warden do something."""

    def disk(self, name: str) -> Path:
        """Return where this machine sees a host's disk."""

    def note_keys(self) -> None:
        """Write the known_hosts file again."""

    def note_power(self) -> None:
        """Write down again which hosts are on."""


class Inside:
    """A host by its PID 1, while that lives."""

    def __init__(self, ground: Ground, slot: Slot) -> None:
        self._ground = ground
        self._slot = slot
        self._pid: int | None = None
        self._born: int | None = None

    def __repr__(self) -> str:
        return f"Host({self.name}, {self.address}, {'on' if self.on else 'off'})"

    @property
    def name(self) -> str:
        """The host's name, such as `r01-n02`."""
        return self._slot.name

    @property
    def rack(self) -> str:
        """The rack's name; empty for a bastion."""
        return self._slot.rack

    @property
    def tray(self) -> int:
        """The place in the rack, from 0."""
        return self._slot.tray

    @property
    def address(self) -> str:
        """The host's address."""
        return self._slot.address

    @property
    def on(self) -> bool:
        """Whether the host is powered on."""
        return self._pid is not None and self._born is not None and birth(self._pid) == self._born

    @property
    def pid(self) -> int:
        """The number of the host's PID 1 on this machine."""
        if self._pid is None or not self.on:
            raise RigError(f"host `{self.name}` is off")
        return self._pid

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        stdin: str | bytes = b"",
        timeout: float = 60,
        check: bool = True,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command inside and answer its end; `check` raises RigError with what it said unless it is 0."""
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(self._inside(argv, user, env), input=data, capture_output=True, timeout=timeout)
        text = subprocess.CompletedProcess(
            list(argv), done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if check and text.returncode != 0:
            raise RigError(f"`{' '.join(argv)}` on `{self.name}` ended with {text.returncode}: {text.stderr.strip()}")
        return text

    def _inside(self, argv: Sequence[str], user: str, env: Mapping[str, str] | None) -> list[str]:
        account = accounts()[user]
        enter = ["nsenter", "-t", str(self.pid), "-m", "-u", "-i", "-n", "-p", "--wd=/"]
        own = {
            "PATH": _PATH,
            "HOME": account.home,
            "USER": user,
            "LOGNAME": user,
            "SHELL": "/bin/bash",
            "LANG": "C.UTF-8",
        }
        become = ["setpriv", f"--reuid={account.uid}", f"--regid={account.uid}", "--init-groups", "--pdeathsig", "KILL"]
        variables = [f"{key}={value}" for key, value in {**own, **(env or {})}.items()]
        return [*enter, *become, "env", "-i", *variables, *argv]

    def spawn(self, argv: Sequence[str], *, user: str = "root", env: Mapping[str, str] | None = None) -> None:
        """Start a command in a session of its own that outlives this call; PID 1 becomes its parent."""
        self.run(["sh", "-c", 'exec setsid --fork "$@" >/dev/null 2>&1 </dev/null', "sh", *argv], user=user, env=env)

    def write(self, path: str, text: str, *, user: str = "root", mode: int = 0o644) -> None:
        """Write a file inside, and the folders above it, as `user`."""
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1" && chmod "$2" "$1"'
        self.run(["sh", "-c", script, "sh", path, f"{mode:o}"], user=user, stdin=text)

    def read(self, path: str) -> str:
        """Return the text of a file inside."""
        return self.run(["cat", path]).stdout

    def files(self, *folders: str) -> set[str]:
        """Return every path below `folders`, on their own file systems: compare before and after a run."""
        return set(self.run(["find", *folders, "-xdev"], check=False).stdout.splitlines())

    def written(self) -> set[str]:
        """Return every path that this host has and the machine under it has not, or not so: all that runs may leave."""
        return {
            f"{inside}/{path.relative_to(here)}"
            for here, inside in self._written_here().items()
            for path in here.rglob("*")
            if inside or not path.is_dir()  # a folder of the machine's is there for what was written in it
        }

    def holding(self, text: str) -> list[str]:
        """Return the files that hold `text`, of all that this host has and the machine under it has not."""
        found = ["grep", "-rlsF", "--devices=skip", text, *map(str, self._written_here())]
        return subprocess.run(found, capture_output=True, text=True).stdout.splitlines()

    def _written_here(self) -> dict[Path, str]:
        """Return where this machine sees what a host wrote, and what the host calls it."""
        disk, root = self._ground.disk(self.name), Path(f"/proc/{self.pid}/root")
        own = {path: str(path.relative_to(disk / "own")) for path in (disk / "own").iterdir()}
        uppers = {path / "up": "" for path in disk.iterdir() if path.name != "own"}
        return uppers | {path: f"/{name}" for path, name in own.items()} | {root / at[1:]: at for at in OWN_MOUNTS}

    def processes(self, marker: str = "", user: str | None = None) -> list[Process]:
        """Return the host's processes but PID 1: all, or those with `marker` in their command line or environment."""
        space = _space(self.pid)
        uid = None if user is None else accounts()[user].uid
        entries = [entry for entry in Path("/proc").iterdir() if entry.name.isdigit()]
        found = [_process(entry, space, marker.encode()) for entry in entries]
        return [one for one in found if one and one.inner != 1 and uid in (None, one.uid)]

    def kill(self, pid: int, how: signal.Signals = signal.SIGKILL) -> None:
        """Signal a process of this host, by the number that `processes` answers."""
        handle = os.pidfd_open(pid)
        try:
            if _space(pid) != _space(self.pid):
                raise RigError(f"process {pid} is not of host `{self.name}`")
            signal.pidfd_send_signal(handle, how)
        finally:
            os.close(handle)

    def freeze(self, pid: int) -> None:
        """Stop a process of this host where it is."""
        self.kill(pid, signal.SIGSTOP)

    def thaw(self, pid: int) -> None:
        """Let a frozen process go on."""
        self.kill(pid, signal.SIGCONT)


def _space(pid: int) -> Path:
    return Path(f"/proc/{pid}/ns/pid").readlink()


def _process(entry: Path, space: Path, marker: bytes) -> Process | None:
    try:
        if (entry / "ns/pid").readlink() != space:
            return None
        argv = (entry / "cmdline").read_bytes()
        if marker and marker not in argv and marker not in (entry / "environ").read_bytes():
            return None
        rows = (line.split(":", 1) for line in (entry / "status").read_text().splitlines())
        status = {key: value.split() for key, value in rows}
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return None
    words = tuple(word.decode(errors="replace") for word in argv.split(b"\0") if word) or (f"[{status['Name'][0]}]",)
    return Process(int(entry.name), int(status["NSpid"][-1]), words, status["State"][0], int(status["Uid"][0]))
