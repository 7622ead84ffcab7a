"""The container of a group: `container`, or SkyPilot's `image_id: docker:IMAGE` in `resources`."""

import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from launcher.config.schema.containers import ListOf
from launcher.config.schema.fields import Field, section
from launcher.config.schema.patterns import absolute_path
from launcher.config.schema.scalars import Choice, Text
from launcher.config.schema.value_types import InvalidValueError, Schema, invalid
from launcher.config.yaml.diagnostics import Diagnostics, KeyPath
from launcher.config.yaml.nodes import Mark, ScalarKind, ScalarNode, YamlNode
from launcher.config.yaml.values import Values
from launcher.core.model.container import Container, ContainerMount, Engine, ImageSource
from launcher.core.model.task import Group

KEY = "container"
IMAGE_ID = "image_id"
_ENGINES = Choice(choices=tuple(one.value for one in Engine))

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".tar.zst", ".sqsh", ".squashfs", ".sif")
_ARCHIVES_OF = {".sqsh": Engine.ENROOT, ".squashfs": Engine.ENROOT, ".sif": Engine.APPTAINER}
# What Docker's grammar of references allows, and enroot's `REGISTRY#IMAGE`; a leading `-` would be an option.
_IMAGE = r"[a-zA-Z0-9][a-zA-Z0-9._:/@#-]{0,511}"
_PREFIX = "docker:"
_OWN = "nvlaunch gives the container its name, namespaces, user and program itself"
# Options whose meaning nvlaunch relies on, and where there is a key for what they say.
REFUSED = {
    "--name": _OWN,
    "--pid": _OWN,
    "--ipc": _OWN,
    "--network": _OWN,
    "--net": _OWN,
    "--userns": _OWN,
    "--entrypoint": _OWN,
    "--detach": _OWN,
    "-d": _OWN,
    "--rm": _OWN,
    "--rc": _OWN,
    "--contain": _OWN,
    "--containall": _OWN,
    "--compat": _OWN,
    "--root": "write it as `user` of `container`",
    "--fakeroot": "write it as `user` of `container`",
    "--restart": "nvlaunch starts the container again itself",
    "--pull": "nvlaunch pulls the image itself, the same on all nodes",
    "--user": "write it as `user` of `container`",
    "-u": "write it as `user` of `container`",
    "--workdir": "write it as `workdir` of `container`",
    "-w": "write it as `workdir` of `container`",
    "--interactive": "no terminal is attached",
    "-i": "no terminal is attached",
    "--tty": "no terminal is attached",
    "-t": "no terminal is attached",
    "--": "nvlaunch adds the image and the program itself",
}
_SWITCHES = "ditPq"
"""Short options without a value, to which others may be joined, as in `-itu root`."""

CONTAINER = section(
    Field(
        name="image",
        doc="The image: a reference such as `nvcr.io/nvidia/pytorch:25.05-py3`, the relative path of an archive on "
        "this machine, which is sent, or the absolute path of one on the nodes.",
        type=Text(expected="an image or the path of an archive", pattern=r"[^-\s\x00-\x1f][^\x00-\x1f]*"),
        filled=True,
    ),
    Field(
        name="engine",
        doc="The program that runs it. Default: `container_engine` of the inventory, or the one that most nodes have.",
        type=_ENGINES,
    ),
    Field(
        name="options",
        doc="Options of the engine's command that makes the container, such as `--cap-add=SYS_PTRACE`.",
        type=ListOf(item=Text(expected="an option", pattern=r"[^\x00-\x1f]*\S[^\x00-\x1f]*"), single=True),
    ),
    Field(
        name="mounts",
        doc="Paths of the nodes to mount: `/PATH`, `/PATH:/PATH_INSIDE`, or with `:ro` at the end.",
        type=ListOf(item=Text(expected="a path of the nodes", pattern=r"/[^\x00-\x1f,]*"), single=True),
    ),
    Field(name="workdir", doc="The folder inside to start in. Default: the workdir of the task.", type=absolute_path),
    Field(
        name="user",
        doc="The user inside, as a name or `UID:GID`. Default: the user of the login to the node.",
        type=Text(
            expected="a user name, or numbers such as `1000:1000`",
            pattern=r"[a-zA-Z0-9_][a-zA-Z0-9_.-]*(:[a-zA-Z0-9_][a-zA-Z0-9_.-]*)?",
            numbers=True,
        ),
    ),
    expected="a mapping such as `{image: ubuntu:24.04}`",
)

CONTAINER_FIELD = Field(
    name=KEY, doc="The container that `setup` and `run` run in, where `image_id` does not say enough.", type=CONTAINER
)


@dataclass(frozen=True, slots=True)
class ImageId:
    """SkyPilot's image of a node: only one of a container, `docker:IMAGE`, means something on a rack."""

    expected: str = "an image such as `docker:nvcr.io/nvidia/pytorch:25.05-py3`"

    def read(self, node: YamlNode, at: KeyPath) -> str:
        """Return the image, without `docker:`."""
        if not isinstance(node, ScalarNode) or node.kind is ScalarKind.NULL:
            raise invalid(node, at, self.expected)
        if not node.text.startswith(_PREFIX):
            hint = f"write `{_PREFIX}IMAGE` for a container image, or remove it: nodes are not made from machine images"
            raise InvalidValueError(node.mark, f"`{at.name}: {node.text}` is not the image of a container", hint)
        return node.text.removeprefix(_PREFIX)

    def schema(self) -> Schema:
        """Return the spelling of a container image."""
        return {"type": "string", "pattern": f"^{_PREFIX}.+$"}


IMAGE_ID_FIELD = Field(
    name=IMAGE_ID, doc="The image of the container that `setup` and `run` run in: `docker:IMAGE`.", type=ImageId()
)


def read_container(own: Values, task: Values, out: Diagnostics) -> Container | None:
    """Return the container of a group, by its own keys or those of the task; None without an image."""
    owner = next((one for one in (own, task) if one.section(KEY).has("image") or _has_id(one)), own)
    resources = owner.section("resources")
    keys = own.section(KEY).over(owner.section(KEY))
    if owner.section(KEY).has("image") and _has_id(owner):
        what = f"`{IMAGE_ID}` and `image` of `{KEY}` are both given, but mean the same"
        out.mistake(keys.key_of("image"), what, "remove one of the two")
        return None
    written, mark = (
        (owner.section(KEY).get("image", str), keys.mark_of("image"))
        if owner.section(KEY).has("image")
        else (resources.get(IMAGE_ID, str), resources.mark_of(IMAGE_ID))
    )
    if written is None:
        if own.has(KEY) and not keys.has("image") and not _has_id(owner):
            out.mistake(keys.mark, f"`{KEY}` has no image", "add `image`: the image that the container is made from")
        return None
    image = _image(written, mark, out)
    if image is None:
        return None
    engine = _engine(keys.get("engine", str), image[0], keys.mark_of("engine"), out)
    return Container(
        image=image[0],
        source=image[1],
        engine=engine,
        options=_options(keys, out),
        mounts=tuple(one for text in keys.texts("mounts") if (one := _mount(text, keys.mark_of("mounts"), out))),
        workdir=keys.get("workdir", str),
        user=keys.get("user", str),
    )


def check_ray_image(sections: Mapping[str, Values], forms: Mapping[str, tuple[Group, ...]], out: Diagnostics) -> None:
    """Report groups that cannot be in a run whose Ray is that of an image.

    All parts of a run's Ray have one version of Ray and Python. Where the driver of a group has an image, they are
    those of the image: on the head, and on the nodes of all groups.
    """
    groups = {name: variants[0] for name, variants in forms.items()}
    first = next((one for one in groups.values() if one.driver is not None and one.container is not None), None)
    if first is None or first.container is None:
        return
    image = first.container.image
    for name, one in groups.items():
        if one.driver is None:
            what = f"`groups.{name}` has no `driver`, but Ray of this run is that of `{image}`"
        elif one.container is None or one.container.image != image:
            other = f"that of `{one.container.image}`" if one.container else "none"
            what = f"`groups.{name}` has another image than `groups.{first.name}`: {other}, not `{image}`"
        else:
            continue
        hint = "all groups of a run have one Ray: give each a `driver` and the same image, or make two tasks of them"
        out.mistake(sections[name].mark, what, hint)


def _has_id(owner: Values) -> bool:
    return owner.section("resources").has(IMAGE_ID)


def is_archive(image: str) -> bool:
    """Whether an image is written as the path of a file: no reference begins so, or has such an end."""
    return image.startswith(("/", "./", "../", "~/")) or image.endswith(ARCHIVES)


def _image(written: str, mark: Mark, out: Diagnostics) -> tuple[str, ImageSource] | None:
    """Return an image and where it comes from; None if it is wrong."""
    if not is_archive(written):
        image = written.removeprefix("docker://")
        if re.fullmatch(_IMAGE, image):
            return image, ImageSource.REGISTRY
        out.mistake(mark, f"`{written}` is not the name of an image", "write, for example, `ubuntu:24.04`")
        return None
    if written.startswith("/"):
        return written, ImageSource.ON_NODES
    try:
        path = Path(written).expanduser().absolute()
        if path.is_file():
            return str(path), ImageSource.SENT
        what = f"`{written}` is not a file" if path.exists() else f"`{written}` does not exist"
    except (OSError, RuntimeError, ValueError):  # the home of an unknown user, or an impossible file name
        what = f"`{written}` does not exist"
    hint = f"relative paths start in the current folder, `{Path.cwd()}`; an absolute path is one on the nodes"
    out.mistake(mark, what, hint)
    return None


def _engine(named: str | None, image: str, mark: Mark, out: Diagnostics) -> Engine | None:
    """Return the engine that is named, or the only one that reads an archive; None where any may do."""
    suitable = next((engine for suffix, engine in _ARCHIVES_OF.items() if image.endswith(suffix)), None)
    if named is None:
        return suitable
    if suitable is not None and named != suitable.value:
        what = f"`engine: {named}` cannot read `{image}`"
        out.mistake(mark, what, f"write `engine: {suitable.value}`, or an archive of `docker save`")
    return Engine(named)


def _options(keys: Values, out: Diagnostics) -> tuple[str, ...]:
    """Return the words of all options; those that nvlaunch sets itself are reported."""
    words: list[str] = []
    for text in keys.texts("options"):
        try:
            parts = shlex.split(text)
        except ValueError as error:
            out.mistake(keys.mark_of("options"), f"`options`: `{text}` cannot be read: {str(error).lower()}")
            continue
        for part in parts:
            if refused := next((one for one in _names(part) if one in REFUSED), None):
                out.mistake(keys.mark_of("options"), f"`options` cannot have `{refused}`: {REFUSED[refused]}")
        words += parts
    if words and not words[0].startswith("-"):
        out.mistake(keys.mark_of("options"), f"`options`: `{words[0]}` does not begin with `-`")
    return tuple(words)


def _names(word: str) -> Iterator[str]:
    """Return the names of the options in a word: short ones may be joined, also with the value of the last."""
    if word.startswith("--"):
        yield word.partition("=")[0]
    elif word.startswith("-"):
        for letter in word[1:]:
            yield f"-{letter}"
            if letter not in _SWITCHES:
                return


def _mount(text: str, mark: Mark, out: Diagnostics) -> ContainerMount | None:
    source, *rest = text.split(":")
    mode = rest.pop() if rest and rest[-1] in ("ro", "rw") else "rw"
    target = rest[0] if rest else source
    if len(rest) > 1 or not target.startswith("/"):
        out.mistake(mark, f"`mounts`: `{text}` is not a mount", "write `/PATH:/PATH_INSIDE`, or with `:ro` at the end")
        return None
    return ContainerMount(source=source, target=target, read_only=mode == "ro")
