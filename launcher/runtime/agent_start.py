"""Starts the agent of a run on a node.

Run once for each node of a launch, so it imports little; the agent itself is another program.
"""

import fcntl
import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from . import environment, files, login, logs, node_fault, rpc, scope

if TYPE_CHECKING:
    from .protocol import Reply
    from .protocol_files import AgentSpec

BEGIN_S = 30.0
OK, FAILED, HELD = 0, 1, 6


def begin(folder: Path) -> int:
    """Start the agent of a folder, detached, unless it lives.

    The reply is printed once the agent answers.
    """
    spec = files.agent_spec(folder)
    if spec is None:
        return _print(FAILED, {"ok": False, "message": f"no `agent.json` in `{folder}`"})
    scratch = files.private(Path(spec["scratch"]))
    if living := _living(spec):
        return _print(OK, living)
    if wrong := _unfit(spec):
        return _print(FAILED, {"ok": False, "message": wrong})
    (folder / "log").mkdir(mode=0o700, exist_ok=True)
    lock = os.open(scratch / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # two starts at once: the second finds the agent of the first
    if living := _living(spec):
        return _print(OK, living)
    reading, writing = os.pipe()
    if os.fork() == 0:
        os.close(reading)
        try:
            _detach(folder, spec, writing)
        except OSError as error:  # it is the agent to be: whoever waits for it has to hear why it is not
            os.write(writing, json.dumps(node_fault.refusal(error, "agent")).encode())
            os._exit(FAILED)
    os.close(writing)
    reply = _read(reading)
    if reply is None:
        return _print(FAILED, {"ok": False, "message": "the agent ended at once", "tail": _log_tail(folder)})
    return _print(OK if reply.get("ok") else HELD if "held_by" in reply else FAILED, reply)


def _unfit(spec: "AgentSpec") -> str | None:
    """Return why Ray cannot run on this interpreter: it is missing there, or too old."""
    minor = spec["ray"]
    if spec["interpreter"] or spec.get("image_ray"):
        return None
    version = _installed() or _asked()
    if version is None:
        return f"`{sys.executable}` has no Ray: install Ray {minor} there, or name another Python with `python:`"
    if [int(part) for part in version.split(".")[:2]] < [int(part) for part in minor.split(".")]:
        return f"`{sys.executable}` has Ray {version}, and {minor} is needed: install that, or name another `python:`"
    return None


def _installed() -> str | None:
    """Return the version of Ray among this interpreter's own packages.

    None unless there is just one.
    """
    number = f"python{sys.version_info[0]}.{sys.version_info[1]}"
    packages = os.path.join(os.path.dirname(os.path.dirname(sys.executable)), "lib", number, "site-packages")
    try:
        (found,) = (name for name in os.listdir(packages) if name.startswith("ray-") and name.endswith(".dist-info"))
        with open(os.path.join(packages, found, "METADATA"), encoding="utf-8") as lines:
            return next((line.split()[1] for line in lines if line.startswith("Version: ")), None)
    except (OSError, ValueError):
        return None


def _asked() -> str | None:
    """Return the version of Ray that the interpreter finds anywhere."""
    asked = "from importlib import metadata; print(metadata.version('ray'))"
    argv = [sys.executable, "-Es", "-c", asked]
    found = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=20)
    return found.stdout.strip() if found.returncode == 0 else None


def _living(spec: "AgentSpec") -> "Reply | None":
    """Return the reply of this folder's agent; None where there is none."""
    try:
        return cast("Reply", rpc.ask(Path(spec["socket"]), {"op": "hello"}, timeout=5))
    except (OSError, ValueError):
        return None


def _print(status: int, reply: "Reply") -> int:
    print(json.dumps(reply))
    return status


def _log_tail(folder: Path) -> list[str]:
    return logs.tail(folder / "log" / "agent.log")


def _read(handle: int) -> "Reply | None":
    poll = select.poll()
    poll.register(handle, select.POLLIN | select.POLLHUP)
    sent = os.read(handle, 65536) if poll.poll(BEGIN_S * 1000) else b""
    reply: Any = json.loads(sent) if sent else None
    return cast("Reply | None", reply)


def _detach(folder: Path, spec: "AgentSpec", writing: int) -> None:
    """Become the agent: a session of its own, without terminal or pipes.

    Its environment carries the mark of an agent.
    """
    os.setsid()
    if os.fork() != 0:
        os._exit(0)
    os.chdir(folder)
    null = os.open("/dev/null", os.O_RDONLY)
    log = os.open("log/agent.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.set_inheritable(writing, True)
    whole, name = spec["login"], f"{spec['run']}:{spec['place']}"
    given = {**os.environ, environment.MARK: f"{name}:login"}
    found = login.read(given) if whole else login.Login(dict(os.environ), login.own_umask())
    base = environment.user(found.environ, whole=whole)
    env = {**base, environment.AGENT_MARK: name, environment.UMASK: f"{found.umask:o}"}
    troubles = [found.trouble, _try_bashrc(spec, base, found.umask, name) if whole else ""]
    env[environment.TROUBLE] = "\n".join(filter(None, troubles))
    package = str(Path(__file__).resolve().parent)
    before, more = scope.lasting() if whole else ([], {})
    argv = [*before, sys.executable, "-EsS", package, "agent", "serve", os.getcwd(), str(writing)]
    os.execvpe(argv[0], argv, {**env, **more})


def _try_bashrc(spec: "AgentSpec", base: dict[str, str], umask: int, name: str) -> str:
    """Return why `~/.bashrc` cannot be read: said at once, and remembered for every start of the run."""
    from . import agent_folders, start_files

    try:
        return start_files.read(base, umask, agent_folders.secrets(Path(spec["scratch"])), f"{name}:login").trouble
    except OSError as error:
        return f"`~/.bashrc` cannot be tried: {error}"


def main(argv: list[str]) -> int:
    """Start the agent of a folder: `agent_start FOLDER`."""
    try:
        return begin(Path(argv[0]).absolute())
    except (OSError, RuntimeError) as error:
        return _print(FAILED, node_fault.refusal(error, "agent"))
