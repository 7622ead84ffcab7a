"""Programs that are sent as text: for a single request to an agent's socket, and for one of ours from memory.

The first is the argument of `python -c` and imports C modules only: so a request costs 12 ms of CPU, and `import
socket, json` would double that. Looks, which are made each second, keep a connection instead (`runtime/relay.py`). A
socket on which another user listens is no agent's, and is sent nothing (SO_PEERCRED; the second of three numbers is the
user).
"""

ONE = """
import _socket, os, sys
path, package, root, limit = sys.argv[1:]
link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
link.settimeout(float(limit))
try:
    link.connect(path)
    user = link.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12)[4:8]
    if int.from_bytes(user, sys.byteorder) != os.geteuid():
        raise OSError
except TimeoutError:
    pass
except OSError:
    if not os.path.exists(package + "/__main__.py"):
        os.write(1, b'{"ok": true, "absent": true}')
        sys.exit()
    os.execv(sys.executable, [sys.executable, "-EsS", package, "orphans", "ask", root])
try:
    while part := os.read(0, 65536):
        link.sendall(part)
    link.shutdown(_socket.SHUT_WR)
    while part := link.recv(65536):
        while part:
            part = part[os.write(1, part):]
except OSError as error:
    os.write(2, ("the agent does not answer: %s" % error).encode())
    sys.exit(3)
"""

FROM_MEMORY = """
import os, sys
def take(size):
    parts = []
    while size:
        part = os.read(0, min(size, 65536))
        if not part:
            sys.exit("the programs did not arrive whole")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)
data = take(int(take(12)))
held = os.memfd_create("nvlaunch")
while data:
    data = data[os.write(held, data):]
sys.path.insert(0, "/proc/self/fd/%d" % held)
from importlib import import_module
sys.exit(import_module("nvlaunch_runtime." + sys.argv[1]).main(sys.argv[2:]))
"""
"""Runs a module of ours that comes on stdin, before its own input: nothing has to be written on the machine for it."""


def from_memory(archive: bytes, stdin: bytes) -> bytes:
    """Return the stdin of `FROM_MEMORY`."""
    return b"%012d" % len(archive) + archive + stdin
