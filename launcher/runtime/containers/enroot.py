"""enroot: the commands of its client (https://github.com/NVIDIA/enroot/tree/master/doc)."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..environment import MARK
from . import registry
from .engines import Creation, EngineError
from .unprivileged import CREATE_S, FileEngine, Kept, only_login_user

_RC = '#!/bin/sh\nexec "$@"\n'


class Enroot(FileEngine):
    """The `enroot` of a node."""

    PROGRAM = "enroot"
    SUFFIXES = (".sqsh", ".squashfs")

    def digest(self, image: str) -> str:
        """Return the digest of an image; enroot has a command for that since 4.0, which uses the node's logins."""
        if "@" in image:
            return registry.digest(image)
        where, repository, tag = registry.split(image)
        try:
            return self.client.run("digest", f"docker://{where and where + '#'}{repository}:{tag}").splitlines()[-1]
        except (EngineError, IndexError):
            return registry.digest(image)

    def fetch(self, image: str, digest: str, to: Path, seconds: float, line: Callable[[str], None]) -> None:
        """Get an image of a registry as a file; a digest in the place of a tag is understood by all releases."""
        where, repository, _ = registry.split(image)
        uri = f"docker://{where and where + '#'}{repository}:{digest}"
        self.client.follow("import", "--output", str(to), "--", uri, line=line, seconds=seconds)

    def unpack(self, image: Path, name: str, asked: Creation) -> None:
        """Unpack an image where enroot keeps containers (`ENROOT_DATA_PATH`)."""
        (self._record(name) / "rc").write_text(_RC)
        self.client.run("create", "--force", "--name", name, "--", str(image), seconds=CREATE_S, mark=asked.mark)

    def words(self, name: str, asked: Creation) -> list[str]:
        """Return the options of `enroot start`.

        The image's own entry point is left out, as with other engines. The hook for GPUs looks at the variables.
        """
        words = ["--rw", *(["--root"] if only_login_user(asked, self.PROGRAM) else [])]
        words += ["--rc", str(self._record(name) / "rc")]
        for source, target, read_only in asked.mounts:
            if any(sign in f"{source}{target}" for sign in (":", " ", "\t", "\n")):
                raise EngineError(f"`enroot` cannot mount `{source}`: its path has a colon or a blank")
            words += ["--mount", f"{source}:{target}:none:x-create=auto,rbind,{'ro' if read_only else 'rw'}"]
        gpus = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "all"}
        variables = {MARK: asked.mark, **(gpus if asked.gpus else {"NVIDIA_VISIBLE_DEVICES": "void"})}
        words += [word for one, value in variables.items() for word in ("--env", f"{one}={value}")]
        return [*words, *asked.options, name]

    def holding(self, kept: Kept, program: Sequence[str]) -> list[str]:
        """Return the command that starts a container."""
        return [self.PROGRAM, "start", *kept["words"], *program]

    def entering(self, kept: Kept, pid: int, argv: Sequence[str], env: Mapping[str, str]) -> list[str]:
        """Return the command that runs a program in the namespaces of a container's process."""
        del kept
        given = [word for one, value in env.items() for word in ("--env", f"{one}={value}")]
        return [self.PROGRAM, "exec", *given, str(pid), *argv]

    def erase(self, name: str, seconds: float) -> None:
        """Remove what was unpacked for a container; EngineError where that takes longer."""
        if name in self.client.run("list", seconds=seconds).split():
            self.client.run("remove", "--force", "--", name, seconds=seconds)
