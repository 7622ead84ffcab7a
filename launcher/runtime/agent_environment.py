"""What an agent gives to the programs of its run: variables, and where secrets are."""

from pathlib import Path
from typing import cast

from . import rpc
from .protocol import PROTOCOL, EnvironmentReply
from .protocol_files import AgentSpec

ANSWER_S = 10.0


def ask(agent: AgentSpec, timeout: float = ANSWER_S) -> EnvironmentReply:
    """Return what the agent gives; OSError or ValueError where it does not answer, or refuses."""
    request = {"op": "environment", "protocol": PROTOCOL}
    given = cast("EnvironmentReply", rpc.ask(Path(agent["socket"]), request, timeout))
    if not given.get("ok"):
        raise OSError(f"the run's agent refuses: {given.get('message') or 'it gives no reason'}")
    return given
