"""Become another program that cannot outlive its parent: `python spawn.py PARENT_PID FOLDER PROGRAM ARGUMENT...`.

A program of its own, because what is set between fork and exec in a threaded parent is not safe.
"""

import ctypes
import os
import resource
import signal
import sys
from typing import NoReturn

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> NoReturn:
    """Raise the limit of open files, die with the parent, change the folder, and become the program."""
    parent, folder, program = int(argv[0]), argv[1], argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)  # Python ignores these two, and `yes | head` would never end
    os.chdir(folder)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
