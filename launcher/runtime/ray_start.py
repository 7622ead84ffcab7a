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
"""Seconds for a head to begin: whoever ordered this raylet kills it long before, where the head does not."""

MISSED_S = 6.0
"""Seconds for Ray to miss the raylet that had the slot before, which takes it three where that was killed."""

_PERIOD_S = 0.2
_PAUSE = threading.Event()
_SLOT = "nvlaunch.io/slot"


def main(argv: list[str]) -> int:
    """Become `ray ARGUMENT...`; the first argument is the port of the client server, or `-`."""
    client, *arguments = argv
    if client != "-" and find_spec("grpc") is not None:
        arguments.append(f"--ray-client-server-port={client}")
    address = _value(arguments, "--address=")
    if address is not None and not await_head(address, HEAD_S, _value(arguments, "--labels=") or ""):
        print(f"the Ray head at `{address}` did not begin within {HEAD_S:.0f} s")
        return 1
    sys.argv = ["ray", *arguments]
    ray_main()
    return 0


def await_head(address: str, limit: float, labels: str = "") -> bool:
    """Wait until the head's own raylet serves at `HOST:PORT`; returns whether it did within `limit` seconds.

    And until Ray misses the raylet before this one, by the slot in `labels`: one that begins just while that happens
    leaves a group without end in RESCHEDULING, FAILED_TO_COMMIT_RESOURCES (Ray 2.60; two of five times on a quick
    machine).
    """
    try:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # Ray's own hints leave it out
        from ray.exceptions import RayError
    except ImportError:
        return True  # no part of what Ray promises: without it Ray waits as it does
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + limit
    while (left := deadline - time.monotonic()) > 0 and heartbeat.opens(host, int(port), left):
        try:
            gcs = GcsClient(address=address)
            if _serves(gcs, deadline):
                _await_free(gcs, labels.split(","))
                return True
        except RayError:
            _PAUSE.wait(_PERIOD_S)  # it ended again: its agent starts another
    return False


def _serves(gcs: Any, deadline: float) -> bool:
    while time.monotonic() < deadline:
        nodes = gcs.get_all_node_info(timeout=5).values()
        if any(node.is_head_node and node.state == node.ALIVE for node in nodes):
            return True
        _PAUSE.wait(_PERIOD_S)
    return False


def _await_free(gcs: Any, labels: Sequence[str]) -> None:
    until = time.monotonic() + MISSED_S
    while time.monotonic() < until:
        nodes = gcs.get_all_node_info(timeout=5).values()
        held = [f"{_SLOT}={dict(node.labels).get(_SLOT)}" for node in nodes if node.state == node.ALIVE]
        if not set(held) & set(labels):
            return
        _PAUSE.wait(_PERIOD_S)


def _value(arguments: Sequence[str], option: str) -> str | None:
    return next((word.removeprefix(option) for word in arguments if word.startswith(option)), None)
