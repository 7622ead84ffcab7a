"""A check of several nodes: each tells rank 0 how fast it is, as an all-reduce would, without GPUs."""

_SCRIPT = """#!/usr/bin/env python3
import os, socket, sys, time
rank, size = int(os.environ["NODE_RANK"]), int(os.environ["NNODES"])
own = 50.0 if SLOW else 100.0
at = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(at, backlog=size) as server:
        server.settimeout(30)
        speeds = [own]
        for _ in range(size - 1):
            link, _ = server.accept()
            with link:
                speeds.append(float(link.recv(64)))
    print(min(speeds))
else:
    for _ in range(300):
        try:
            with socket.create_connection(at, timeout=5) as link:
                link.sendall(str(own).encode())
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
    else:
        sys.exit(2)
"""


def all_reduce(slow: str) -> str:
    """The script, on whose nodes an expression of Python says which are slow."""
    return _SCRIPT.replace("SLOW", slow)
