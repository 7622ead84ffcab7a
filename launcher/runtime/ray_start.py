"""`ray start`, with the port of Ray's client server pinned where this Ray has one, and patience for a head that starts.

Whether it has a client server depends on the node's own installation (grpcio, as in `ray[client]`), and each of the two
answers is an error in the other case: the option is refused without it, and without the option it takes 10001, maybe
somebody else's.

A raylet is started while its head is. Ray itself would wait too, but in steps of two seconds, of which it counts 20.
"""

import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ray.scripts.scripts import main as ray_main

from . import heartbeat

HEAD_S = 600.0
"""Seconds for a head to begin: whoever ordered this raylet sweeps it long before, where the head does not."""

_PERIOD_S = 0.2
_PAUSE = threading.Event()
_ADDRESS = "--address="


def main(argv: list[str]) -> int:
    """Become `ray ARGUMENT...`; the first argument is the port of the client server, or `-`."""
    client, *arguments = argv
    if client != "-" and find_spec("grpc") is not None:
        arguments.append(f"--ray-client-server-port={client}")
    address = _address(arguments)
    if address is not None and not await_head(address, HEAD_S):
        print(f"the Ray head at `{address}` did not begin within {HEAD_S:.0f} s")
        return 1
    sys.argv = ["ray", *arguments]
    ray_main()
    return 0


def await_head(address: str, limit: float) -> bool:
    """Wait until the head's own raylet serves at `HOST:PORT`; answers whether it did within `limit` seconds."""
    try:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # Ray's own hints leave it out
        from ray.exceptions import RayError
    except ImportError:
        return True  # no part of what Ray promises: without it Ray waits as it does
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + limit
    while (left := deadline - time.monotonic()) > 0 and heartbeat.opens(host, int(port), left):
        try:
            if _serves(GcsClient(address=address), deadline):
                return True
        except RayError:
            _PAUSE.wait(_PERIOD_S)  # it ended again: its keeper starts another
    return False


def _serves(gcs: Any, deadline: float) -> bool:
    while time.monotonic() < deadline:
        nodes = gcs.get_all_node_info(timeout=5).values()
        if any(node.is_head_node and node.state == node.ALIVE for node in nodes):
            return True
        _PAUSE.wait(_PERIOD_S)
    return False


def _address(arguments: Sequence[str]) -> str | None:
    return next((word.removeprefix(_ADDRESS) for word in arguments if word.startswith(_ADDRESS)), None)
