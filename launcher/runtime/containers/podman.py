"""Podman: as Docker, but for what it does without root, how it is given GPUs, and what it writes."""

import os
import re
from collections.abc import Callable, Mapping

from .docker import Docker
from .engines import Client, Creation


class Podman(Docker):
    """The `podman` of a node."""

    PROGRAM = ("podman",)

    def __init__(self, env: Mapping[str, str]) -> None:
        super().__init__(env)
        self.client = Client(self.PROGRAM, env)

    def local(self, image: str) -> tuple[str, str] | None:
        """Return the id of a local image and its digest in its registry: none has those of `localhost`."""
        found = super().local(image)
        return (found[0], "") if found is not None and image.startswith("localhost/") else found

    def pull(self, image: str, stage: Callable[[str], None], seconds: float) -> None:
        """Get an image from its registry."""
        layers: set[str] = set()

        def line(text: str) -> None:
            if found := re.match(r"Copying blob (?:sha256:)?([0-9a-f]+)", text):
                layers.add(found[1])
                stage(f"pulling `{image}`: {len(layers)} layers")

        self.client.follow("pull", image, line=line, seconds=seconds)

    def user(self, asked: Creation) -> list[str]:
        """Return the options for the user of a container.

        Without root, the user of the node keeps its number inside, unless it is to be root there: that is the same
        user, seen from the node.
        """
        if os.geteuid() != 0 and asked.user.split(":")[0] not in ("0", "root"):
            return ["--userns", "keep-id", *super().user(asked)]
        return super().user(asked)

    def limits(self, asked: Creation) -> list[str]:
        """Return the options for limits: those of this process, which Podman hands on."""
        return ["--ulimit", "host"] if asked.limits else []

    def groups(self, asked: Creation) -> list[str]:
        """Return the further groups of the user; without root there are no others inside."""
        return super().groups(asked) if os.geteuid() == 0 else []

    def gpus(self) -> list[str]:
        """Return the options for all GPUs of the node (CDI)."""
        return ["--device", "nvidia.com/gpu=all"]
