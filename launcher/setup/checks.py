"""The variables and the call of a check on a node."""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import Node
from launcher.core.model.nodeset import NodeName
from launcher.runtime.protocol_programs import CheckRequest

BEYOND_S = 40.0
"""Seconds beyond a check's own time: for its end, and the login's variables."""

NO_PYTHON = 97
"""The exit status of a call if the node has no Python that can run it."""

FIRST_PORT, PORTS = 29500, 1000
"""The ports for a rendezvous: from PyTorch's default on, below the kernel's ephemeral ones."""

# The login shell may be of any kind: one line, without characters that csh expands.
_FIND = (
    'code=$1; shift; for p in "$@"; do case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
    '"$p" -ISc "import sys; sys.exit(sys.version_info < (3, 10))" </dev/null 2>/dev/null && exec "$p" -EsSc "$code"; '
    f"done; exit {NO_PYTHON}"
)

# A file in memory only: nothing is left on the node, whatever ends this program.
_LOADER = (
    "import os, sys; size = int(sys.stdin.buffer.readline()); file = os.memfd_create('check'); "
    "os.write(file, sys.stdin.buffer.read(size)); sys.path.insert(0, '/proc/self/fd/%d' % file); "
    "from nvlaunch_runtime import check; check.main()"
)

PACKAGE = "nvlaunch_runtime"
"""The name of the package of programs in the archive that is sent."""

_PYTHONS = ("python3", "python3.13", "python3.12", "python3.11", "python3.10")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckCall:
    """A command for the shell of a node, its stdin, and its time-out (s)."""

    argv: tuple[str, ...]
    stdin: bytes
    timeout: float


def call(programs: bytes, request: CheckRequest, python: str | None) -> CheckCall:
    """Return the call that runs a check; `programs` is an archive with the package of `launcher/runtime`.

    The exit status is NO_PYTHON where neither the given Python nor one of the system is 3.10 or later.
    """
    pythons = (*((python,) if python else ()), *_PYTHONS)
    stdin = str(len(programs)).encode() + b"\n" + programs + json.dumps(request).encode()
    return CheckCall(
        argv=("sh", "-c", _FIND, "sh", _LOADER, *pythons), stdin=stdin, timeout=request["limit"] + BEYOND_S
    )


def variables(nodes: Sequence[Node], name: str, port: int) -> dict[NodeName, dict[str, str]]:
    """Return the variables of a check on each of its nodes, with the names that ranks of a run know.

    `nodes` are in rank order; the first one is the address of the rendezvous.
    """
    addresses = [node.access.address for node in nodes]
    shared = {
        "NVLAUNCH_CHECK": name,
        "NVLAUNCH_CHECK_NODES": "\n".join(node.name for node in nodes),
        "NVLAUNCH_NODE_IPS": "\n".join(addresses),
        "NVLAUNCH_NUM_NODES": str(len(nodes)),
        "NVLAUNCH_CHECK_DOMAINS": str(len({node.domain or node.rack for node in nodes})),
        "NNODES": str(len(nodes)),
        "MASTER_ADDR": addresses[0],
        "MASTER_PORT": str(port),
    }
    return {
        node.name: {
            **node.env,
            **shared,
            "NVLAUNCH_NODE_NAME": node.name,
            "NVLAUNCH_NODE_RANK": str(rank),
            "NVLAUNCH_NUM_GPUS_PER_NODE": str(node.gpus),
            "NVLAUNCH_RACK": node.rack,
            "NVLAUNCH_DOMAIN": node.domain or "",
            "NODE_RANK": str(rank),
        }
        for rank, node in enumerate(nodes)
    }


def port_of(token: str) -> int:
    """Return the port for the rendezvous of a check; `token` is hexadecimal."""
    return FIRST_PORT + int(token, 16) % PORTS


def describe_check(name: str, by: str) -> str:
    """Return what the lease of a node says while a check runs."""
    return f"check `{name}` of {by}"
