"""Apptainer: the commands of its client (https://apptainer.org/docs/user/main/cli.html).

Its named instances have a PID namespace of their own, in which no process could be found from outside. So each program
is started by `exec` in the same folder, which is writable, and needs no overlay that only one could write to.
"""

import os
import stat
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..environment import MARK
from . import registry
from .engines import Creation, EngineError, last_line
from .unprivileged import CREATE_S, FileEngine, Kept, only_login_user

SPACE = "/var/tmp"  # noqa: S108 -- a folder of this user's own is made there
# Without an overlay, Apptainer mounts only where the image has a file; what is missing of these is left out.
_PROGRAMS = ("usr/bin/nvidia-smi", "usr/bin/nvidia-debugdump", "usr/bin/nvidia-persistenced")


class Apptainer(FileEngine):
    """The `apptainer` of a node."""

    PROGRAM = "apptainer"
    SUFFIXES = (".sif",)

    def digest(self, image: str) -> str:
        """Return the digest of an image in its registry."""
        return registry.digest(image)

    def fetch(self, image: str, digest: str, to: Path, seconds: float, line: Callable[[str], None]) -> None:
        """Get an image of a registry as a file."""
        where, repository, _ = registry.split(image)
        uri = f"docker://{where and where + '/'}{repository}@{digest}"
        self.client.follow("pull", "--force", str(to), uri, line=line, seconds=seconds)

    def unpack(self, image: Path, name: str, asked: Creation) -> None:
        """Unpack an image, and make in it what is mounted on."""
        folder = self._sandbox(name)
        self.erase(name, CREATE_S)
        self.client.run("build", "--sandbox", str(folder), str(image), seconds=CREATE_S, mark=asked.mark)
        for source, target, _ in asked.mounts:
            _make(folder, target, folder=os.path.isdir(source))
        for program in _PROGRAMS if asked.gpus else ():
            _make(folder, program, folder=False)

    def words(self, name: str, asked: Creation) -> list[str]:
        """Return the options of `apptainer exec`: inside are what is mounted, `/dev`, and what its owner binds."""
        words = ["--writable", "--cleanenv", "--no-home", "--no-mount", "tmp,cwd"]
        words += ["--fakeroot"] if only_login_user(asked, self.PROGRAM) else []
        for source, target, read_only in asked.mounts:
            if any(sign in f"{source}{target}" for sign in (",", '"', "\n")):
                raise EngineError(f"`apptainer` cannot mount `{source}`: its path has a comma or a quote")
            words += ["--mount", f"type=bind,source={source},destination={target}" + (",ro" if read_only else "")]
        return [*words, *(["--nv"] if asked.gpus else []), *asked.options, str(self._sandbox(name))]

    def holding(self, kept: Kept, program: Sequence[str]) -> list[str]:
        """Return the command that starts a container."""
        *options, folder = kept["words"]
        return [self.PROGRAM, "exec", *options, "--env", f"{MARK}={kept['mark']}", folder, *program]

    def entering(self, kept: Kept, pid: int, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """Return the command that runs a program in the folder of a container."""
        del pid
        *options, folder = kept["words"]
        given = [word for one, value in env.items() for word in ("--env", f"{one}={value}")]
        return [self.PROGRAM, "exec", *options, *given, folder, *argv]

    def erase(self, name: str, seconds: float) -> None:
        """Remove the folder of a container; images have folders that even their owner may not write to."""
        folder = self._sandbox(name)
        if not folder.exists():
            return
        words = ["sh", "-c", 'chmod -R u+rwX -- "$1" 2>/dev/null; exec rm -rf -- "$1"', "nvlaunch", str(folder)]
        try:
            done = subprocess.run(words, capture_output=True, timeout=seconds)
        except subprocess.TimeoutExpired:
            raise EngineError(f"`{folder}` was not removed within {seconds:.0f} s", hung=True) from None
        if done.returncode:
            raise EngineError(f"`{folder}` cannot be removed: {last_line(done.stderr)}")

    def _sandbox(self, name: str) -> Path:
        """Return the folder of a container: on a disk of the node, since homes may be on a network."""
        top = Path(self.client.env.get("APPTAINER_TMPDIR") or SPACE) / f"nvlaunch-{os.geteuid()}"
        top.mkdir(mode=0o700, exist_ok=True)
        found = top.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o022:
            raise EngineError(f"`{top}` belongs to another user, or others may write to it")
        return top / name


def _make(root: Path, target: str, *, folder: bool) -> None:
    """Make a folder or an empty file in an image's folder; never through a link, which may lead out of it."""
    at = root
    parts = Path(target.lstrip("/")).parts
    for number, part in enumerate(parts, 1):
        at = at / part
        if at.is_symlink():
            return
        if not at.exists():
            if number == len(parts) and not folder:
                at.touch()
            else:
                at.mkdir()
