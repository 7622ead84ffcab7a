"""Containers: the image that a group's programs run in, and how it is started."""

from dataclasses import dataclass
from enum import Enum


class Engine(Enum):
    """A program that runs containers. The order is that in which they are looked for on nodes."""

    DOCKER = "docker"
    PODMAN = "podman"
    ENROOT = "enroot"
    APPTAINER = "apptainer"


class ImageSource(Enum):
    """Where an image comes from: a registry, a file of the launching machine, or a file that the nodes have."""

    REGISTRY = "registry"
    SENT = "sent"
    ON_NODES = "on-nodes"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerMount:
    """A path of the node that is mounted into a container, both absolute."""

    source: str
    target: str
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Container:
    """The container of a group on each of its nodes.

    `image` is a reference such as `nvcr.io/nvidia/pytorch:25.05-py3`, or the absolute path of an archive. `engine` None
    is that of the run's inventory, where admission notes it. `options` are words added to the engine's command.
    `workdir` None is the workdir of the run, and `user` None the user of the node agent.
    """

    image: str
    source: ImageSource = ImageSource.REGISTRY
    engine: Engine | None = None
    options: tuple[str, ...] = ()
    mounts: tuple[ContainerMount, ...] = ()
    workdir: str | None = None
    user: str | None = None
