"""Docker: the commands of its client, and how their output is read."""

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence

from ..environment import MARK
from .engines import GROUP_LABEL, PLACE_LABEL, RUN_LABEL, Client, Creation, EngineError

CREATE_S = 300.0
START_S = 60.0
_PROCESS = re.compile(r"(\d{1,9}) ([0-9a-f]{64})")


class Docker:
    """The `docker` of a node."""

    PROGRAM: tuple[str, ...] = ("docker",)

    def __init__(self, env: Mapping[str, str]) -> None:
        self.client = Client(self.PROGRAM, env)

    def local(self, image: str) -> tuple[str, str] | None:
        """Return the id of a local image and its digest in its registry."""
        try:
            told = self.client.run("image", "inspect", image)
        except EngineError as error:
            if not error.hung and _absent(str(error)):
                return None
            raise
        try:
            (found,) = json.loads(told)
            identity, listed = str(found["Id"]), [str(one) for one in found.get("RepoDigests") or ()]
        except (ValueError, TypeError, KeyError, AttributeError):
            raise self._odd("image inspect", told) from None
        wanted = repository(image)
        digests = [one.partition("@") for one in listed]
        same = [digest for name, _, digest in digests if _plain(name) == _plain(wanted)]
        digest = image.partition("@")[2] if image.partition("@")[2] in same else (same[0] if same else "")
        return _with_algorithm(identity), digest

    def pull(self, image: str, stage: Callable[[str], None], seconds: float) -> None:
        """Get an image from its registry."""
        layers: set[str] = set()
        done: set[str] = set()

        def line(text: str) -> None:
            layer, _, state = text.partition(": ")
            if state.startswith(("Pulling fs layer", "Already exists", "Waiting")):
                layers.add(layer)
            if state.startswith(("Pull complete", "Already exists")):
                done.add(layer)
            if layers:
                stage(f"pulling `{image}`: {len(done)} of {len(layers)} layers")

        self.client.follow("pull", image, line=line, seconds=seconds)

    def load(self, path: str, seconds: float) -> str:
        """Load the archive of an image; return its id."""
        told = self.client.run("load", "-i", path, seconds=seconds)
        names = [line.partition(": ")[2].strip() for line in told.splitlines() if line.startswith("Loaded image")]
        if not names:
            raise EngineError(f"`{path}` has no image: {told[-200:]}")
        found = self.local(names[-1].split(",")[0])
        if found is None:
            raise EngineError(f"`{names[-1]}` of `{path}` is not there after it was loaded")
        return found[0]

    def create(self, asked: Creation) -> None:
        """Make a container and start it."""
        self.client.run(*self.creation(asked), seconds=CREATE_S, mark=asked.mark)

    def creation(self, asked: Creation) -> list[str]:
        """Return the arguments that make a container."""
        argv = ["run", "--detach", "--name", asked.name, "--pull", "never"]
        for label, value in ((RUN_LABEL, asked.run), (PLACE_LABEL, asked.place), (GROUP_LABEL, asked.group)):
            argv += ["--label", f"{label}={value}"]
        argv += ["--network", "host", "--ipc", "host", "--pid", "host", *self.user(asked)]
        argv += ["--env", f"{MARK}={asked.mark}", "--entrypoint", asked.program[0]]
        for group in self.groups(asked):
            argv += ["--group-add", group]
        argv += self.limits(asked)
        for source, target, read_only in asked.mounts:
            more = (",readonly" if read_only else "") + (",bind-propagation=rslave" if source in asked.followed else "")
            argv += ["--mount", f"type=bind,source={source},target={target}{more}"]
        for device in asked.devices:
            argv += ["--device", device]
        return [*argv, *(self.gpus() if asked.gpus else ()), *asked.options, asked.image, *asked.program[1:]]

    def user(self, asked: Creation) -> list[str]:
        """Return the options for the user of a container."""
        return ["--user", asked.user]

    def limits(self, asked: Creation) -> list[str]:
        """Return the options for limits: those of this process, not of the daemon."""
        given = (("--ulimit", f"{limit}={soft}:{hard}") for limit, soft, hard in asked.limits)
        return [word for option in given for word in option]

    def groups(self, asked: Creation) -> list[str]:
        """Return the further groups of the user: those that may use the devices of the node."""
        return [str(group) for group in asked.groups]

    def gpus(self) -> list[str]:
        """Return the options for all GPUs of the node."""
        return ["--gpus", "all"]

    def start(self, name: str) -> bool:
        """Start a container that has stopped; False where there is none of that name."""
        try:
            self.client.run("start", name, seconds=START_S)
        except EngineError as error:
            if not error.hung and _absent(str(error)):
                return False
            raise
        return True

    def process(self, name: str) -> tuple[int, str]:
        """Return the number of the first process of a container, 0 where it does not run, and the container's id."""
        told = self.client.run("inspect", "--type", "container", "--format", "{{.State.Pid}} {{.ID}}", name)
        if (found := _PROCESS.fullmatch(told)) is None:
            raise self._odd("inspect", told)
        return int(found[1]), found[2]

    def enter(
        self, name: str, argv: Sequence[str], env: Mapping[str, str], *, log: str = "", terminal: bool = False
    ) -> list[str]:
        """Return the command that runs a program in a container."""
        ways = (["--detach"] if log else []) + (["--interactive", "--tty"] if terminal else [])
        given = [word for one, value in env.items() for word in ("--env", f"{one}={value}")]
        return [*self.PROGRAM, "exec", *ways, *given, name, *argv]

    def discard(self, name: str, seconds: float) -> None:
        """Remove the container of this name, running or not."""
        self.client.run("rm", "--force", "--volumes", name, seconds=seconds)

    def remove(self, run: str, place: str, seconds: float) -> list[str]:
        """Remove the containers of a run and place; return those that still run."""
        mine = ("--filter", f"label={RUN_LABEL}={run}", "--filter", f"label={PLACE_LABEL}={place}")
        until = time.monotonic() + seconds
        found = self.client.run("ps", "--all", "--quiet", "--no-trunc", *mine, seconds=seconds).split()
        if not found:
            return []
        trouble = ""
        try:
            self.client.run("rm", "--force", "--volumes", *found, seconds=max(1.0, until - time.monotonic()))
        except EngineError as error:
            if error.hung:
                raise
            trouble = str(error)
        names = "{{.Names}}"
        left = self.client.run("ps", "--format", names, *mine, seconds=max(1.0, until - time.monotonic())).split()
        if trouble and not left:
            raise EngineError(trouble)
        return left

    def _odd(self, command: str, told: str) -> EngineError:
        return EngineError(f"`{self.PROGRAM[0]} {command}` has an odd answer: {told[:200]}")


def repository(image: str) -> str:
    """Return an image's repository: without its tag and digest."""
    name = image.partition("@")[0]
    head, slash, last = name.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _plain(name: str) -> str:
    """Return a repository as it is written in short."""
    return name.removeprefix("docker.io/").removeprefix("library/")


def _absent(message: str) -> bool:
    return any(words in message.lower() for words in ("no such", "not known", "no container with", "does not exist"))


def _with_algorithm(identity: str) -> str:
    return identity if identity.startswith("sha256:") else f"sha256:{identity}"
