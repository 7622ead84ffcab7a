"""The start of an agent: what a node is asked to run once, and what has to be over soon.

It stands before each agent of a launch, so it imports no more than it needs; the agent itself is another program.
"""

import fcntl
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from . import environment, files, login, logs, rpc, scope

BEGIN_S = 30.0
OK, FAILED, HELD = 0, 1, 6


def begin(folder: Path) -> int:
    """Start the agent of a folder, detached, unless it lives; prints how that went, returns when it answers."""
    spec = files.read(folder / "agent.json") or {}
    scratch = files.private(Path(spec["scratch"]))
    if living := _living(spec):
        return _say(OK, living)
    if wrong := _unfit(spec):
        return _say(FAILED, {"ok": False, "message": wrong})
    (folder / "log").mkdir(mode=0o700, exist_ok=True)
    lock = os.open(scratch / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # two starts at once: the second finds the agent of the first
    if living := _living(spec):
        return _say(OK, living)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        _detach(folder, spec, writing)
    os.close(writing)
    said = _read(reading)
    status = OK if said.get("ok") else HELD if "held" in said else FAILED
    return _say(status, said or {"ok": False, "message": "the agent ended at once", "tail": _log_tail(folder)})


def _unfit(spec: dict[str, Any]) -> str | None:
    """Return why this interpreter will not do for Ray: its Ray is missing or too old."""
    minor = spec.get("ray")
    if minor is None or spec.get("interpreter"):
        return None
    version = _installed() or _asked()
    if version is None:
        return f"`{sys.executable}` has no Ray: install Ray {minor} there, or name another Python with `python:`"
    if [int(part) for part in version.split(".")[:2]] < [int(part) for part in minor.split(".")]:
        return f"`{sys.executable}` has Ray {version}, and {minor} is needed: install that, or name another `python:`"
    return None


def _installed() -> str | None:
    """Return the version of Ray that lies among this interpreter's own packages, if just one does."""
    number = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "lib", number, "site-packages")
    try:
        (found,) = (name for name in os.listdir(packages) if name.startswith("ray-") and name.endswith(".dist-info"))
        with open(os.path.join(packages, found, "METADATA"), encoding="utf-8") as lines:
            return next((line.split()[1] for line in lines if line.startswith("Version: ")), None)
    except (OSError, ValueError):
        return None


def _asked() -> str | None:
    """Return the version of Ray that the interpreter finds wherever it looks for packages."""
    asked = "from importlib import metadata; print(metadata.version('ray'))"
    argv = [sys.executable, "-Es", "-c", asked]
    found = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    return found.stdout.strip() if found.returncode == 0 else None


def _living(spec: dict[str, Any]) -> dict[str, Any] | None:
    """Return what the agent of this folder says, None when there is none."""
    try:
        return rpc.ask(Path(spec["socket"]), {"op": "hello"}, timeout=5)
    except (OSError, ValueError):
        return None


def _say(status: int, answer: dict[str, Any]) -> int:
    print(json.dumps(answer))
    return status


def _log_tail(folder: Path) -> list[str]:
    return logs.tail(folder / "log" / "agent.log")


def _read(handle: int) -> dict[str, Any]:
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    said = os.read(handle, 65536) if poll.poll(BEGIN_S * 1000) else b""
    answer: dict[str, Any] = json.loads(said) if said else {}
    return answer


def _detach(folder: Path, spec: dict[str, Any], writing: int) -> None:
    """Become the agent: a session of its own, no terminal, no pipe of the starter's, a marked environment."""
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir(folder)
    null = os.open("/dev/null", os.O_RDONLY)
    log = os.open("log/agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.set_inheritable(writing, True)
    whole = spec.get("login", False)
    base = environment.user(login.environ(os.environ) if whole else os.environ, whole=whole)
    env = {**base, environment.AGENT_MARK: f"{spec['run']}:{spec['place']}"}
    package = str(Path(__file__).resolve().parent)
    before, more = scope.lasting() if whole else ([], {})
    argv = [*before, sys.executable, "-EsS", package, "agent", "serve", os.getcwd(), str(writing)]
    os.execvpe(argv[0], argv, {**env, **more})


def main(argv: list[str]) -> int:
    """`begin FOLDER` starts the agent of a folder."""
    return begin(Path(argv[0]).absolute())
