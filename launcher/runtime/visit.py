"""A shell at a terminal beside a rank: with the rank's variables, in its folder."""

import os
from pathlib import Path

from . import command, environment

TERMINAL = ("TERM", "COLORTERM", "SSH_AUTH_SOCK")


def main(argv: list[str]) -> int:
    """Become the user's shell: `visit FOLDER LABEL`; label `-` stands for no rank."""
    folder = Path(argv[0]).absolute()
    label = "" if argv[1] == "-" else argv[1]
    base = environment.user(os.environ)
    terminal = {name: os.environ[name] for name in TERMINAL if name in os.environ}
    env = {**command.variables(folder, label, {}, base), **terminal}
    os.chdir(command.place(folder))
    os.execvpe(env["SHELL"], [env["SHELL"]], env)
