"""`ray start`, with the port of Ray's client server pinned where this Ray has one.

Whether it has depends on the node's own installation (grpcio, as in `ray[client]`), and each of the two answers is an
error in the other case: the option is refused without it, and without the option it takes 10001, maybe somebody else's.
"""

import sys
from importlib.util import find_spec

from ray.scripts.scripts import main as ray_main


def main(argv: list[str]) -> int:
    """Become `ray ARGUMENT...`; the first argument is the port of the client server, or `-`."""
    client, *arguments = argv
    if client != "-" and find_spec("grpc") is not None:
        arguments.append(f"--ray-client-server-port={client}")
    sys.argv = ["ray", *arguments]
    ray_main()
    return 0
