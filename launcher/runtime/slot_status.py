"""What an agent says of itself and of the programs of its node."""

import os
from pathlib import Path

from . import ranks
from .agent_faults import AgentFaults
from .containers.fixed_images import FixedImages
from .mounts import Mounts
from .protocol import PROTOCOL, StatusReply
from .watched import WatchedProgram


def of_agent(block: int, member: str | None, ray: WatchedProgram) -> StatusReply:
    """Return what the status of each agent has."""
    status: StatusReply = {"ok": True, "protocol": PROTOCOL, "agent": os.getpid(), "block": block}
    status["member"], status["ray"] = member, ray.status()
    return status


class SlotStatus:
    """The setup, images, ranks and mounts of a node."""

    def __init__(
        self, folder: Path, setup: WatchedProgram, images: FixedImages, mounts: Mounts, faults: AgentFaults
    ) -> None:
        self._folder = folder
        self._setup = setup
        self._images = images
        self._mounts = mounts
        self._faults = faults
        self._quiet = ranks.QuietTimes()

    def added_to(self, status: StatusReply) -> StatusReply:
        """Return a status with them, and with the node's own fault."""
        status["setup"] = self._setup.status()
        self._images.add_to(status)
        status["ranks"] = ranks.statuses(self._folder, self._quiet, self._faults.ends)
        status["mounts"] = self._mounts.rows()
        return self._faults.added_to(status)
