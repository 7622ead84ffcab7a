"""SkyPilot's `config.docker.run_options` and `volumes`: options and mounts of a group's container."""

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from launcher.config.schema.containers import ListOf, MapOf
from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import absolute_path
from launcher.config.schema.scalars import Text
from launcher.config.schema.value_types import InvalidValueError, Schema
from launcher.config.task.container import REFUSED
from launcher.config.task.skypilot_keys import CLOUDS, CONFIG_ELSEWHERE, SHARED, Unread
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.nodes import ScalarKind, ScalarNode, YamlNode
from launcher.config.yaml.values import Values
from launcher.core.model.container import Container, ContainerMount

_OPTIONS = "run_options"
_NO_CONTAINER = "the task runs in no container"
_IMAGE = "name an image with `image_id: docker:IMAGE` in `resources`, or remove it"


@dataclass(frozen=True, slots=True)
class HostPath:
    """The source of a volume: a path of the nodes; a named volume, which a cloud keeps, is refused."""

    expected: str = "an absolute path of the nodes"

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the path."""
        if isinstance(node, ScalarNode) and node.kind is ScalarKind.TEXT and node.text.startswith("/"):
            return node.text
        raise InvalidValueError(node.mark, f"`{at.name}` is not supported: there are no cloud disks", SHARED)

    def schema(self) -> Schema:
        """Return a string."""
        return {"type": "string", "pattern": "^/"}


_DOCKER = section(
    Field(
        name=_OPTIONS,
        doc="Options of the engine's command that makes the container.",
        type=ListOf(item=Text(expected="an option", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"), single=True),
    ),
    rest=Unread(why=CLOUDS),
)
CONFIG = Field(
    name="config",
    doc="A key of SkyPilot: `docker.run_options` are options of the container.",
    type=section(
        *CONFIG_ELSEWHERE, Field(name="docker", doc="Docker's options.", type=_DOCKER), rest=Unread(why=CLOUDS)
    ),
)
VOLUMES = Field(
    name="volumes",
    doc="A key of SkyPilot: paths of the nodes to mount into the container, by their path inside.",
    type=MapOf(item=HostPath(), keys=absolute_path),
)


def with_docker_options(container: Container | None, own: Values, task: Values, out: Diagnostics) -> Container | None:
    """Return the container of a group with SkyPilot's options and volumes, of its own document or the task's.

    Without a container, options are warned about, and a volume must be at its own path.
    """
    owner = own if own.has("config") or own.has("volumes") else task
    options, volumes = owner.section("config").section("docker"), owner.entries("volumes")
    if container is None:
        if options.texts(_OPTIONS):
            what = f"`config.docker.{_OPTIONS}` has no effect: {_NO_CONTAINER}"
            out.warn(options.key_of(_OPTIONS), what, _IMAGE)
        for target, found in volumes.items():
            if found.value != target:
                what = f"`volumes.{target}` cannot be mounted: {_NO_CONTAINER}"
                out.mistake(found.key, what, f"use `{found.value}` in the commands, or {_IMAGE}")
        return None
    mounts = (ContainerMount(source=str(found.value), target=target) for target, found in volumes.items())
    return replace(
        container,
        options=(*_words(options, out), *container.options),
        mounts=(*container.mounts, *mounts),
    )


def _words(docker: Values, out: Diagnostics) -> Iterator[str]:
    """Yield the words of all options but those that nvlaunch sets itself, each with its value."""
    mark = docker.mark_of(_OPTIONS)
    for text in docker.texts(_OPTIONS):
        try:
            words = shlex.split(text)
        except ValueError as error:
            out.mistake(mark, f"`{_OPTIONS}`: `{text}` cannot be read: {str(error).lower()}")
            continue
        dropped = False
        for word in words:
            if word.startswith("-"):
                name = word.partition("=")[0]
                dropped = name in REFUSED
                if dropped:
                    out.warn(mark, f"`{_OPTIONS}`: `{name}` is left out: {REFUSED[name]}")
            if not dropped:
                yield word
