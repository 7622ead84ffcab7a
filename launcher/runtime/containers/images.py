"""Finds the same image on every node: what the first node found is fixed for all of the run.

An image of a registry is fixed by its digest there; one that no registry knows (loaded, imported, built) by its id.
"""

import time
from collections.abc import Callable
from pathlib import Path

from .. import rpc
from ..protocol import PROTOCOL
from ..protocol_containers import ARCHIVES, ContainerSpec, ImageRequest
from .docker import repository
from .engines import ContainerEngine, EngineError

PULL_S = 7200.0
LOAD_S = 1800.0
ASK_S = 15.0
"""Seconds for which the agent lets one question wait; it is asked again."""

PINNING = "waiting for the first node to say which content the image has"

# What registries, Docker and Podman write, in lower case, and what it means for people.
_CAUSES = (
    (("toomanyrequests", "rate limit", "429 "), "the registry's rate limit is reached: log in there, or use a mirror"),
    (
        ("unauthorized", "denied", "authentication required", "no basic auth", "credentials"),
        "the registry wants a login: {login} on the node, as the user that nvlaunch logs in as",
    ),
    (("manifest unknown", "not found", "does not exist", "name unknown"), "the registry has no such image or tag"),
    (("no space left", "disk quota"), "no space left on device for the image"),
    (
        ("no such host", "i/o timeout", "connection refused", "connection reset", "tls", "network is unreachable"),
        "the registry cannot be reached from the node",
    ),
    (("permission denied", "cannot connect", "is the docker daemon running"), "the engine cannot be used"),
)

_LOGIN = "run `{engine} login {registry}`"
_LOGINS = {
    "apptainer": "run `apptainer registry login docker://{registry}`",
    "enroot": "write `machine {registry} login USER password TOKEN` to ~/.config/enroot/.credentials",
}
_HUBS = {"apptainer": "docker.io", "enroot": "auth.docker.io"}


def said(error: EngineError, engine: str, image: str) -> str:
    """Return what an engine's message means, and the message."""
    meaning = _cause(str(error), engine, image)
    return f"{meaning} ({error})" if meaning else str(error)


def _cause(message: str, engine: str, image: str) -> str:
    told = message.lower()
    if "docker daemon" in told or "docker.sock" in told:
        return "the engine does not answer this user: it is not running, or the user is not in its group"
    first = image.partition("/")[0]
    registry = first if "/" in image and ("." in first or ":" in first or first == "localhost") else ""
    meaning = next((meaning for words, meaning in _CAUSES if any(word in told for word in words)), "")
    login = _LOGINS.get(engine, _LOGIN).format(engine=engine, registry=registry or _HUBS.get(engine, ""))
    return meaning.format(login=login).replace(" ` on", "` on")


class NodeImage:
    """The image of a container on this node.

    `agent` is the socket of the agent, which knows what the launcher has fixed.
    """

    def __init__(
        self, spec: ContainerSpec, engine: ContainerEngine, folder: Path, agent: Path, stage: Callable[[str], None]
    ) -> None:
        self._spec = spec
        self._engine = engine
        self._folder = folder
        self._agent = agent
        self._stage = stage

    def ready(self) -> str:
        """Return what a container is made of: the image that all nodes of the run have, which is on this node now.

        EngineError says why it cannot be had.
        """
        image = self._spec["image"]
        fixed = self._fixed("") if not self._spec["archive"] else ""
        if fixed.startswith("digest:"):
            return self._by_digest(fixed.removeprefix("digest:"))
        found = self._loaded() if self._spec["archive"] else self._named(pull=not fixed)
        while not fixed:
            self._stage(PINNING)
            fixed = self._fixed(found)
        if fixed == found:
            return self._reference(found)
        if fixed.startswith("digest:"):
            return self._by_digest(fixed.removeprefix("digest:"))
        raise EngineError(
            f"`{image}` is another image on this node: {found.partition(':')[2]}, and {fixed.partition(':')[2]} on "
            "the first node of the run. No registry has it: load the same archive on all nodes, or name the archive as "
            "`image`"
        )

    def kept(self, fixed: str) -> str | None:
        """Return what a container is made of without asking any registry; None where the image is not here."""
        image = fixed.partition(":")[2]
        if fixed.startswith("digest:"):
            image = f"{repository(self._spec['image'])}@{image}"
        return image if self._engine.local(image) else None

    def _reference(self, found: str) -> str:
        kind, _, content = found.partition(":")
        return f"{repository(self._spec['image'])}@{content}" if kind == "digest" else content

    def _fixed(self, found: str) -> str:
        """Return what is fixed for the run; empty where nothing is yet."""
        asked: ImageRequest = {"op": "image", "protocol": PROTOCOL, "image": self._spec["image"], "found": found}
        reply = rpc.ask(self._agent, asked, timeout=ASK_S + 15)
        if not reply["ok"]:
            raise EngineError(reply.get("message", "the agent does not say which content the image has"))
        return str(reply.get("identity", ""))

    def _by_digest(self, digest: str) -> str:
        reference = f"{repository(self._spec['image'])}@{digest}"
        if self._engine.local(reference) is None:
            self._pull(reference)
        return reference

    def _named(self, *, pull: bool) -> str:
        """Return the identity of the image by its name.

        One that is here and that no registry has given is taken as it is. Where the registry fails, so is one that it
        gave before.
        """
        image = self._spec["image"]
        here = self._engine.local(image)
        if here is not None and not here[1]:
            return f"id:{here[0]}"
        if pull:
            try:
                self._pull(image)
            except EngineError as error:
                if here is None:
                    raise
                print(f"nvlaunch: {error}; the image that the node has is used", flush=True)
            else:
                here = self._engine.local(image)
        if here is None:
            raise EngineError(f"`{image}` is not on this node, and the run uses an image that no registry has: load it")
        return f"digest:{here[1]}" if here[1] else f"id:{here[0]}"

    def _pull(self, image: str) -> None:
        self._stage(f"pulling `{image}`")
        begun = time.monotonic()
        try:
            self._engine.pull(image, self._stage, PULL_S)
        except EngineError as error:
            raise EngineError(f"cannot pull `{image}`: {said(error, self._spec['engine'], image)}") from None
        print(f"nvlaunch: pulled `{image}` in {time.monotonic() - begun:.0f} s", flush=True)

    def _loaded(self) -> str:
        path = self.archive
        self._stage(f"loading `{path.name}`")
        if not path.is_file():
            raise EngineError(
                f"`{path}` is not a file on this node; write a relative path to send one from the launching machine"
            )
        try:
            return f"id:{self._engine.load(str(path), LOAD_S)}"
        except EngineError as error:
            raise EngineError(f"cannot load `{path}`: {said(error, self._spec['engine'], '')}") from None

    @property
    def archive(self) -> Path:
        """Return the path of the image's archive on this node."""
        sent = self._folder / ARCHIVES / self._spec["group"]
        found = next(iter(sent.iterdir()), None) if sent.is_dir() else None
        return found or Path(self._spec["image"])
