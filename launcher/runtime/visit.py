"""A shell at a terminal beside a rank: with the rank's variables, in its folder."""

import os
from pathlib import Path

from . import command, environment, files, rpc, spawn
from .protocol import PROTOCOL

TERMINAL = ("TERM", "COLORTERM", "SSH_AUTH_SOCK")


def main(argv: list[str]) -> int:
    """Become the user's shell: `visit FOLDER LABEL`; label `-` stands for no rank."""
    folder = Path(argv[0]).absolute()
    label = "" if argv[1] == "-" else argv[1]
    base = _base(folder)
    spawn.raise_limits()
    terminal = {name: os.environ[name] for name in TERMINAL if name in os.environ}
    env = {**command.variables(folder, label, {}, base), **terminal}
    os.chdir(command.place(folder))
    os.execvpe(env["SHELL"], [env["SHELL"]], env)


def _base(folder: Path) -> dict[str, str]:
    """Return the variables of a login, as the run's agent has them."""
    agent = files.agent_spec(folder)
    if agent is not None:
        try:
            given = rpc.ask(Path(agent["socket"]), {"op": "environment", "protocol": PROTOCOL}, timeout=5)
            return dict(given["base"])
        except (OSError, ValueError, KeyError):
            pass  # its run is over
    return environment.user(os.environ)
