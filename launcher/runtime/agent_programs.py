"""The commands that an agent starts: setup, and the modules of this package that use Ray."""

import sys
from pathlib import Path

from . import files, interpreter, setups
from .containers.keep import specs
from .protocol_files import SetupStep

LOGS = {"ray_start": "ray.log", "supervisor": "supervisor.log"}
"""The logs of the parts of Ray, in the folder `log` of a run's folder."""
PACKAGE = str(Path(__file__).resolve().parent)


class AgentPrograms:
    """Builds commands for a run's folder and the interpreter that Ray runs on."""

    def __init__(self, folder: Path, environ: "interpreter.RayEnvironment | None") -> None:
        self._folder = folder
        self.environ = environ

    def setup(self, scripts: list[SetupStep], *, buckets: bool = False) -> list[str]:
        """Return the command of setup, empty for none; it makes a Python environment, and copies buckets."""
        files.write(self._folder / setups.SETUPS, {"setups": scripts})
        needed = scripts or specs(self._folder)
        argv = [sys.executable, "-EsS", PACKAGE, "setups", str(self._folder)] if needed else []
        if buckets:
            argv = [sys.executable, "-EsS", PACKAGE, "bucket_setup", str(self._folder), *argv]
        if self.environ is None or self.environ.made:
            return argv
        return [sys.executable, "-EsS", PACKAGE, "interpreter", "setup", str(self._folder), *argv]

    def with_ray(self, part: str, *argv: str) -> list[str]:
        """Return the command that runs a module of this package with Ray: in a container, where its image has that."""
        if (inside := next((one for one in specs(self._folder) if one["ray"]), None)) is not None:
            where = [str(self._folder), inside["group"], str(self._folder / "log" / LOGS[part])]
            return [sys.executable, "-EsS", PACKAGE, "ray_inside", *where, part, *argv]
        if self.environ is None:
            return [sys.executable, "-Es", PACKAGE, part, *argv]
        return [sys.executable, "-EsS", PACKAGE, "interpreter", "run", str(self._folder), part, *argv]

    @property
    def python(self) -> str:
        """Return the interpreter that has Ray."""
        return str(self.environ.python) if self.environ else sys.executable
