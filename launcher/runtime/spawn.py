"""Become another program that cannot outlive its parent.

`python spawn.py PARENT_PID FOLDER PROGRAM ARGUMENT...`. It is a program of its own, because a threaded parent cannot
safely run code between fork and exec. It runs before each start on a node, so it imports little: `signal` and `typing`
alone would triple its time.
"""

import _signal  # type: ignore[import-not-found]  # the C part of `signal`, all that is needed
import ctypes
import os
import resource
import sys

PR_SET_PDEATHSIG = 1


def main(argv: list[str]) -> None:
    """Become the program, in its folder, with a parent-death signal.

    It may open as many files as the machine allows.
    """
    parent, folder, program = int(argv[0]), argv[1], argv[2:]
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        sys.exit(1)
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores these two, and `yes | head` would never end
    os.chdir(folder)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
