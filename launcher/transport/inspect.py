"""The health of a node of a run, over a connection that is open anyway."""

from importlib import resources

from launcher.core.model.inventory import Node
from launcher.core.model.observation import Health, Unseen
from launcher.errors import RemoteError
from launcher.probe import health, node_facts
from launcher.probe.results import Unknown
from launcher.runtime.protocol_files import BEGAN
from launcher.transport.agent.client import AgentClient

WAY_S = 4.0
"""Seconds for the way there and back, besides those of the slowest probe."""


def inspect(client: AgentClient, node: Node) -> Health | Unseen:
    """Return the health of a node.

    One that shares its machine with others has none of its own.
    """
    if client.shared:
        return Health(at=0.0)
    script = resources.files("launcher.runtime").joinpath("facts.py").read_bytes()
    call = health.call(script, node, f"{client.layout.root}/{BEGAN}")
    try:
        ended = client.shell.run(client.access, call.argv, stdin=call.stdin, timeout=call.timeout + WAY_S)
    except RemoteError as error:
        return Unseen(message=error.advice)
    if ended.status == node_facts.NO_PYTHON:
        return Unseen(message=node_facts.no_python(node).why)
    found = health.read(ended.stdout, node)
    return Unseen(message=found.why) if isinstance(found, Unknown) else found
