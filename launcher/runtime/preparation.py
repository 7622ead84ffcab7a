"""How a node is prepared: its secrets, its files, its buckets, and the setups of its groups."""

import platform
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from . import environment, files, interpreter, rclone, stage
from .agent_programs import AgentPrograms
from .containers.pins import FixedImages
from .mounts import Mounts
from .protocol import PrepareRequest, Reply
from .protocol_files import AgentSpec
from .watched import WatchedProgram


class Preparation:
    """Prepares a node when it is asked to; `turn` is held while something starts."""

    def __init__(
        self,
        folder: Path,
        spec: AgentSpec,
        base: Mapping[str, str],
        ray: tuple["interpreter.RayEnvironment | None", AgentPrograms],
        setup: WatchedProgram,
        mounts: Mounts,
        images: FixedImages,
        secrets: Path,
    ) -> None:
        self.turn = threading.Lock()
        self._folder = folder
        self._spec = spec
        self._base = base
        self._interpreter, self._programs = ray
        self._setup = setup
        self._mounts = mounts
        self._images = images
        self._secrets = secrets

    def prepare(self, request: PrepareRequest) -> Reply:
        """Keep secrets, ask for missing files, and run setup once in the run.

        Each agent is asked: the secrets of an earlier one went with it, or with the memory of a machine that booted.
        Mounts went too, and are made again.
        """
        files.write(self._secrets, request["secrets"])
        if request["workdir"] and not (self._folder / "workdir").exists():
            return self._need("workdir")
        if self._interpreter and self._interpreter.lacks_wheels:
            return self._need("wheels")
        buckets = request.get("buckets")
        if buckets:
            program = rclone.Rclone(self._folder, buckets["rclone"], self._base.get("PATH", ""))
            if program.missing:
                return {**self._need("rclone"), "machine": platform.machine()}
            try:
                program.find()  # kept here, before several programs look for it
            except rclone.NoRcloneError as error:
                return {"ok": False, "message": str(error), "lasting": True}
        if self._images.missing(self._folder, request.get("containers")):
            return self._need("images")
        (self._folder / "workdir").mkdir(exist_ok=True)
        with self.turn:
            done = self._setup.resume()
            mounting = buckets is not None and self._mounts.begin(buckets, self._base)
            if done and (self._setup.running or not mounting):
                return {"ok": True}
            argv = self._programs.setup([] if done else request["setups"], buckets=buckets is not None)
            if not argv:
                self._setup.skip()
                return {"ok": True}
            env = {**self._base, environment.MARK: f"{self._spec['run']}:{self._spec['place']}:setup"}
            message = "" if self._interpreter is None or self._interpreter.made else interpreter.MESSAGE
            self._setup.start(argv, env, folder=self._folder / "workdir", message=message)
        return {"ok": True}

    def _need(self, name: Literal["workdir", "wheels", "rclone", "images"]) -> Reply:
        self._setup.set_stage(stage.COPYING)
        return {"ok": True, "need": name}
