"""Where Ray's dashboard of a run is, and how a person reaches it."""

import shlex

from launcher.core.model.inventory import Access, Transport
from launcher.core.model.run import Run
from launcher.core.model.run_index import index_of

PORT = 8265
"""The port on the launching machine: that of every example in Ray's documentation."""


def describe_dashboard(run: Run, port: int | None) -> str | None:
    """Return how to reach the dashboard that listens on `port` of the head.

    None while nothing is known of it; port 0 for none.
    """
    if port is None:
        return None
    if port == 0:
        where = f"the head ({run.head})" if run.head else "the head's machine"
        return f"none: Ray's Python on {where} lacks `ray[default]`"
    if run.fleet.transport is not Transport.SSH:
        return f"http://127.0.0.1:{port}"
    return f"`{forwarding(_head_access(run), port)}`, then http://127.0.0.1:{PORT}"


def forwarding(access: Access, port: int) -> str:
    """Return the command that makes a port of a machine's loopback address port 8265 of this one."""
    options = [("-J", access.proxy_jump), ("-i", access.identity_file), ("-p", access.port and str(access.port))]
    words = [word for option, value in options if value for word in (option, value)]
    at = f"{access.user}@{access.address}" if access.user else access.address
    return shlex.join(["ssh", "-N", "-L", f"{PORT}:127.0.0.1:{port}", *words, at])


def _head_access(run: Run) -> Access:
    outside = run.fleet.head
    return outside if run.head is None and outside else index_of(run).nodes[run.head or run.placement.nodes[0]].access
