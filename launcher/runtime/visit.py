"""A shell at a terminal beside a rank: with the rank's variables, in its folder."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from . import agent_environment, command, environment, files, spawn
from .containers.engines import EngineError
from .protocol_containers import ContainerSpec
from .protocol_files import CommandRequest

VISIT_S = 5.0
TERMINAL = ("TERM", "COLORTERM", "SSH_AUTH_SOCK")


def main(argv: list[str]) -> int:
    """Become the user's shell: `visit FOLDER LABEL`; label `-` stands for no rank."""
    folder = Path(argv[0]).absolute()
    label = "" if argv[1] == "-" else argv[1]
    base = _base(folder)
    spawn.raise_limits()
    terminal = {name: os.environ[name] for name in TERMINAL if name in os.environ}
    container = command.inside(folder, label)
    code = None if container is None else _inside(folder, label, container, terminal)
    if code is None:
        env = {**command.variables(folder, label, {}, base), **terminal}
        os.chdir(command.place(folder))
        os.execvpe(env["SHELL"], [env["SHELL"]], env)
    return code


def _base(folder: Path) -> dict[str, str]:
    """Return the variables of a login, as the run's agent has them."""
    agent = files.agent_spec(folder)
    if agent is not None:
        try:
            return dict(agent_environment.ask(agent, VISIT_S)["base"])
        except (OSError, ValueError):
            pass  # its run is over
    return environment.user(os.environ)


def _inside(folder: Path, label: str, container: ContainerSpec, terminal: dict[str, str]) -> int | None:
    """Run a shell in a container; return its exit status, None where the run is over."""
    agent = files.agent_spec(folder)
    if agent is None:
        return None
    try:
        given = agent_environment.ask(agent, VISIT_S)
        token = f"visit.{os.getpid()}"
        env = command.variables(folder, label, {}, {})
        shown: dict[str, str] = {name: terminal[name] for name in ("TERM", "COLORTERM") if name in terminal}
        request: CommandRequest = {"token": token, "argv": ["bash"], "label": label, "env": {}, "timeout": None}
        mark = {environment.MARK: command.mark(agent, token)}
        memory = Path(given["secrets"]).parent
        env |= shown
        env |= mark
        argv, client = command.entered(folder, container, given["base"], memory, env, request, terminal=True)
    except (OSError, ValueError):  # its run is over, or the agent hangs
        print("nvlaunch: the run's agent does not answer: this shell is not in the container", file=sys.stderr)
        return None
    except EngineError as error:
        sys.exit(f"nvlaunch: {error}")
    try:
        return _through(argv, client)
    finally:
        command.forget(memory, token)


def _through(argv: list[str], env: dict[str, str]) -> int:
    """Run the client of an engine at our terminal; return its exit status. Signals are the client's."""
    with subprocess.Popen(argv, env=env) as client:
        for number in (signal.SIGINT, signal.SIGQUIT):  # the terminal sends them to both
            signal.signal(number, lambda *_: None)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda given, _: client.send_signal(given))
        code = client.wait()
    return code if code >= 0 else 128 - code
