"""The variables of a login.

sshd itself sets little more than PATH, the rest comes from the shell's start-up files.
"""

import logging
import os
import pwd
import subprocess
from collections.abc import Mapping

LIMIT_S = 10.0
"""Seconds for the start-up files; some wait for a licence server or a file system that hangs."""

_MARK = b"\x1envlaunch\x1e"
_ASK = "printf '\\036nvlaunch\\036'; exec env -0"
_BY_COMMAND = ("sh", "bash", "zsh", "ksh", "mksh", "dash", "ash", "fish")


def environ(given: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a login shell of this user.

    The given one where the shell does not print it in time.
    """
    shell = pwd.getpwuid(os.getuid()).pw_shell or "/bin/sh"
    name = os.path.basename(shell)
    # csh takes no command beside `-l`: it is a login shell by its name, and reads the command from stdin.
    argv, stdin = ([shell, "-lc", _ASK], b"") if name in _BY_COMMAND else ([f"-{name}"], _ASK.encode() + b"\n")
    try:
        with subprocess.Popen(
            argv,
            executable=shell,
            env=dict(given),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                said, _ = process.communicate(stdin, timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, 9)
                raise
    except (OSError, subprocess.TimeoutExpired) as error:
        logging.warning("cannot get the environment of the login shell `%s`: %s", shell, error)
        return dict(given)
    found = dict(line.split("=", 1) for line in os.fsdecode(said.partition(_MARK)[2]).split("\0") if "=" in line)
    if "PATH" not in found:
        logging.warning("the login shell `%s` sets no PATH", shell)
        return dict(given)
    return found
