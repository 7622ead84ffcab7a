"""The way to a keeper's socket: a few lines that run on the machine for each question.

They are the argument of `python -c` and import nothing but C modules: a look at a node costs 12 ms of CPU, where
`import socket, json` alone would double that.
"""

ONE = """
import _socket, os, sys
path, package, root, limit = sys.argv[1:]
link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
link.settimeout(float(limit))
try:
    link.connect(path)
except TimeoutError:
    pass
except OSError:
    if not os.path.exists(package + "/__main__.py"):
        os.write(1, b'{"ok": true, "absent": true}')
        sys.exit()
    os.execv(sys.executable, [sys.executable, "-EsS", package, "alone", "ask", root])
try:
    while part := os.read(0, 65536):
        link.sendall(part)
    link.shutdown(_socket.SHUT_WR)
    while part := link.recv(65536):
        while part:
            part = part[os.write(1, part):]
except OSError as error:
    os.write(2, ("the keeper does not answer: %s" % error).encode())
    sys.exit(3)
"""

ALL = """
import _socket, os, select, sys, time
limit, paths = float(sys.argv[1]) + time.monotonic(), sys.argv[2:]
question = b""
while part := os.read(0, 65536):
    question += part
poll, links, said = select.poll(), {}, dict.fromkeys(paths, b"")
for path in paths:
    link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    link.setblocking(False)
    try:
        link.connect(path)
        link.send(question)
        link.shutdown(_socket.SHUT_WR)
    except BlockingIOError:
        continue
    except OSError:
        said[path] = b"gone"
        continue
    links[link.fileno()] = link, path
    poll.register(link.fileno(), select.POLLIN)
while links and (ready := poll.poll(max(0, limit - time.monotonic()) * 1000)):
    for handle, _ in ready:
        link, path = links[handle]
        try:
            part = link.recv(1 << 20)
        except OSError:
            part = b""
        said[path] += part
        if not part:
            poll.unregister(handle)
            del links[handle]
for _, path in links.values():
    said[path] = b""
for path in paths:
    data = said[path] + b"\\n"
    while data:
        data = data[os.write(1, data):]
"""
"""One short question to all keepers on a machine: a line for each, JSON; `gone` where nobody listens, empty where
nobody answers in time."""
