"""How a node is prepared: its secrets, its files, its buckets, and the setups of its groups."""

import platform
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from . import environment, files, interpreter, rclone, stage
from .agent_programs import AgentPrograms
from .containers.fixed_images import FixedImages
from .mounts import Mounts
from .protocol import PrepareRequest, Reply
from .protocol_files import AgentSpec
from .watched import WatchedProgram


@dataclass(frozen=True)
class RunHere:
    """A run on this node: its folder, what its agent was started with, the login's variables, the file of secrets."""

    folder: Path
    spec: AgentSpec
    base: Mapping[str, str]
    secrets: Path


class Preparation:
    """Prepares a node when it is asked to; `turn` is held while something starts."""

    def __init__(
        self, here: RunHere, programs: AgentPrograms, setup: WatchedProgram, mounts: Mounts, images: FixedImages
    ) -> None:
        self.turn = threading.Lock()
        self._here = here
        self._programs = programs
        self._setup = setup
        self._mounts = mounts
        self._images = images

    def prepare(self, request: PrepareRequest) -> Reply:
        """Keep secrets, ask for missing files, and run setup once in the run.

        Each agent is asked: the secrets of an earlier one went with it, or with the memory of a machine that booted.
        Mounts went too, and are made again.
        """
        files.write(self._here.secrets, request["secrets"])
        if request["workdir"] and not (self._here.folder / "workdir").exists():
            return self._need("workdir")
        if self._programs.environ and self._programs.environ.lacks_wheels:
            return self._need("wheels")
        buckets = request.get("buckets")
        if buckets:
            program = rclone.Rclone(self._here.folder, buckets["rclone"], self._here.base.get("PATH", ""))
            if program.missing:
                return {**self._need("rclone"), "machine": platform.machine()}
            try:
                program.find()  # kept here, before several programs look for it
            except rclone.NoRcloneError as error:
                return {"ok": False, "message": str(error), "lasting": True}
        if self._images.missing(self._here.folder, request.get("containers")):
            return self._need("images")
        (self._here.folder / "workdir").mkdir(exist_ok=True)
        with self.turn:
            done = self._setup.resume()
            mounting = buckets is not None and self._mounts.begin(buckets, self._here.base)
            if done and (self._setup.running or not mounting):
                return {"ok": True}
            argv = self._programs.setup([] if done else request["setups"], buckets=buckets is not None)
            if not argv:
                self._setup.skip()
                return {"ok": True}
            env = {**self._here.base, environment.MARK: f"{self._here.spec['run']}:{self._here.spec['place']}:setup"}
            message = "" if self._programs.environ is None or self._programs.environ.made else interpreter.MESSAGE
            self._setup.start(argv, env, folder=self._here.folder / "workdir", message=message)
        return {"ok": True}

    def _need(self, name: Literal["workdir", "wheels", "rclone", "images"]) -> Reply:
        self._setup.set_stage(stage.COPYING)
        return {"ok": True, "need": name}
