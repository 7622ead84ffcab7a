"""`ray start` after waiting for the head, with the client port pinned.

Whether Ray has a client server depends on the node's installation (grpcio, as in `ray[client]`). Without it the option
for its port is an error; with it and without the option, Ray takes port 10001, which may be another's.

A raylet is started while its head is. Ray itself waits too, but in steps of two seconds, and 20 of them at most.
"""

import os
import sys
import threading
import time
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

from ray.scripts.scripts import main as ray_main

from . import agent_environment, connectivity, environment, files, start_files
from .protocol_files import WORKERS, WorkersFile

HEAD_S = 600.0
"""Seconds for a head to start; the launcher kills this raylet long before, where the head does not."""

MISSED_S = 6.0
"""Seconds for Ray to notice the end of the slot's earlier raylet; it takes three where that was killed."""

DASHBOARD = "--include-dashboard=true"
"""The option of a head with a dashboard. Ray ends with it where what a dashboard needs is not installed."""

_PERIOD_S = 0.2
_PAUSE = threading.Event()
_SLOT = "nvlaunch.io/slot"


def main(argv: list[str]) -> int:
    """Become `ray ARGUMENT...`: `ray_start CLIENT_PORT|- ARGUMENT...`."""
    become_user(Path(os.environ["NVLAUNCH_FOLDER"]))
    return start(argv)


def start(argv: list[str]) -> int:
    """The same with the environment as it is."""
    client, *arguments = argv
    if DASHBOARD in arguments and _lacks_dashboard():
        print(f"nvlaunch: no dashboard: {sys.executable} lacks `ray[default]`", flush=True)
        arguments[arguments.index(DASHBOARD)] = DASHBOARD.replace("true", "false")
    if client != "-" and find_spec("grpc") is not None:
        arguments.append(f"--ray-client-server-port={client}")
    address = _value(arguments, "--address=")
    if address is not None and not await_head(address, HEAD_S, _value(arguments, "--labels=") or ""):
        print(f"the Ray head at `{address}` did not start within {HEAD_S:.0f} s")
        return 1
    sys.argv = ["ray", *arguments]
    ray_main()
    return 0


def become_user(folder: Path) -> None:
    """Take the environment of the user, where the workers of a driver run its code.

    A raylet of ranks needs none of it: they get theirs from their own parent.
    """
    agent, workers = files.agent_spec(folder), cast("WorkersFile | None", files.read(folder / WORKERS))
    if agent is None or workers is None:
        return
    given = agent_environment.ask(agent)
    start = start_files.of_agent(given, os.environ[environment.MARK])
    if start.trouble:
        print(f"nvlaunch: {start.trouble}", flush=True)
    secrets = environment.declared(files.read(Path(given["secrets"])) or {}, workers["secrets"])
    user = {**start.env, **environment.given(folder, workers["variables"]), **secrets}
    found = environment.workers(os.environ, user)
    os.environ.clear()
    os.environ.update(found)
    os.umask(start.umask)


def await_head(address: str, limit: float, labels: str = "") -> bool:
    """Wait until the head's own raylet serves at `HOST:PORT`.

    Return whether it does within `limit` seconds. Wait also until Ray has noticed the end of the earlier raylet of the
    slot in `labels`: one that starts meanwhile leaves a group in RESCHEDULING, FAILED_TO_COMMIT_RESOURCES for good (Ray
    2.60; two of five times on a fast machine).
    """
    try:
        from ray._raylet import GcsClient  # type: ignore[attr-defined]  # Ray's own hints leave it out
        from ray.exceptions import RayError
    except ImportError:
        return True  # not part of Ray's public API: without it Ray waits by itself
    host, _, port = address.rpartition(":")
    deadline = time.monotonic() + limit
    while (left := deadline - time.monotonic()) > 0 and connectivity.opens(host, int(port), left):
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


def _lacks_dashboard() -> bool:
    """Whether what a dashboard needs is not installed."""
    from ray._private.utils import get_dashboard_dependency_error

    return get_dashboard_dependency_error() is not None


def _value(arguments: Sequence[str], option: str) -> str | None:
    return next((word.removeprefix(option) for word in arguments if word.startswith(option)), None)
