"""What an agent knows that no file could be written for: ends of ranks, and the node's own fault."""

from collections.abc import Sequence
from pathlib import Path

from . import interpreter, node_fault
from .protocol import Reply, StatusReply
from .protocol_files import EndedRequest, RankExitFile


class AgentFaults:
    """Ends of ranks by member and attempt, and whether the node is to blame for what failed on it."""

    def __init__(self, folders: Sequence[Path]) -> None:
        self._suspicion = node_fault.Suspicion(folders)
        self.ends: dict[tuple[str, int], RankExitFile] = {}

    def ended(self, request: EndedRequest) -> Reply:
        """Keep how a rank ended, or that it did not begin, which its parent could not write down."""
        self.ends[request["member"], request["attempt"]] = request["end"]
        if "fault" in request:
            self._suspicion.note(request["fault"])
        return {"ok": True}

    def added_to(self, status: StatusReply) -> StatusReply:
        """Return a status with the node's own fault, where that is behind something that failed."""
        ray, setup = status["ray"], status.get("setup")
        fault = None
        if ray["phase"] == "failed":
            fault = self._suspicion.ask("ray", ray.get("tail", ()))
        elif setup and setup["phase"] == "failed":
            made = setup.get("exit_code") == interpreter.NO_ENVIRONMENT  # else the log is the user's own
            fault = self._suspicion.ask("setup", setup.get("tail", ()) if made else ())
        elif failed := [one for one in status.get("ranks", ()) if not one["running"] and one.get("exit_code") != 0]:
            fault = self._suspicion.ask("rank", [line for one in failed for line in one.get("tail", ())])
        else:
            self._suspicion.clear()
        if fault:
            status["fault"] = fault
        return status
