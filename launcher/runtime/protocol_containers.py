"""What the launcher tells a node about containers.

A part of `protocol.py`.
"""

from __future__ import annotations

import re
from typing import TypedDict

CONTAINERS = "containers.json"
"""The file in a run's folder that lists its containers there."""

ARCHIVES = "images"
"""The folder in a run's folder with archives of images that the launcher has sent, by the name of their group."""

_IDENTITY = re.compile(r"(digest|id):sha256:[0-9a-f]{64}")


def is_identity(text: object) -> bool:
    """Whether a text names the content of an image: `digest:` in its registry, or else the `id:` of the engine."""
    return isinstance(text, str) and _IDENTITY.fullmatch(text) is not None


class MountSpec(TypedDict):
    """A path of the node in a container."""

    source: str
    target: str
    read_only: bool


class ContainerSpec(TypedDict):
    """The container of a group on a node."""

    group: str
    engine: str
    image: str  # a reference, or the path of an archive
    archive: bool
    options: list[str]
    mounts: list[MountSpec]
    shared: list[str]  # file mounts and buckets outside of the workdir, as the task names them
    workdir: str | None
    user: str | None
    gpus: bool
    fence: bool  # whether the inventory has a command that powers nodes off
    ray: bool  # the run's Ray is that of the image


class ContainersRequest(TypedDict):
    """The containers of a node. `images` are the contents that are fixed by now; with `sent`, archives have to come."""

    specs: list[ContainerSpec]
    images: dict[str, str]
    sent: bool


class ContainerState(TypedDict):
    """A container that was made here: its process, as number and start (clock ticks), and who that runs as."""

    group: str
    engine: str
    name: str
    id: str
    pid: int
    start: int
    uid: int
    gid: int


class SetUpFile(TypedDict):
    """The container, by its id, in which the setup of its group has ended well; `python` has Ray, where that counts."""

    id: str
    python: str


class ImageRequest(TypedDict):
    """Tell the agent which content of an image was found, and wait a moment for what the launcher has fixed."""

    op: str
    protocol: int
    image: str
    found: str
