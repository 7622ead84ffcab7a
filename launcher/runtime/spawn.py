"""Become another program that cannot outlive its parent.

`python spawn.py PARENT_PID UMASK FOLDER PROGRAM ARGUMENT...`. It is a program of its own, because a threaded parent
cannot safely run code between fork and exec. It runs before each start on a node, so it imports little: `signal` and
`typing` alone would triple its time.
"""

import _signal  # type: ignore[import-not-found]  # the C part of `signal`, all that is needed
import ctypes
import os
import resource
import sys

PR_SET_PDEATHSIG = 1


RAISED = (resource.RLIMIT_NOFILE, resource.RLIMIT_MEMLOCK, resource.RLIMIT_NPROC)
"""Limits of open files, locked memory (RDMA) and processes.

Not that of the stack: glibc gives each thread a stack of the soft limit, and only 2 MiB where that is unlimited, and
the kernel lays out memory another way then. A program that wants more says `ulimit -s`.
"""


def raise_limits() -> None:
    """Raise limits of this process as far as the login allows it."""
    for limit in RAISED:
        hard = resource.getrlimit(limit)[1]
        resource.setrlimit(limit, (hard, hard))


def main(argv: list[str]) -> None:
    """Become the program, in its folder, with a parent-death signal, an octal umask, and raised limits."""
    parent, *rest = argv
    umask = rest.pop(0) if rest[0].isdigit() else ""  # an agent of 0.3 gives none
    folder, *program = rest
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, _signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):  # it ended before the line above
        sys.exit(1)
    raise_limits()
    if umask:
        os.umask(int(umask, 8))
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)  # Python ignores these two, and `yes | head` would never end
    os.chdir(folder)
    os.execvp(program[0], program)


if __name__ == "__main__":
    main(sys.argv[1:])
