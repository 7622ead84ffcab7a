"""Tells nodes about the containers of a run, and fixes which content an image has on all of them."""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from pathlib import Path

from launcher.core.model.container import ImageSource
from launcher.core.model.run import Member, Run
from launcher.core.model.task import Group
from launcher.errors import LaunchError
from launcher.runtime.protocol import StatusReply
from launcher.runtime.protocol_containers import ContainerSpec, ContainersRequest, is_identity
from launcher.transport.private import made_once

FOLDER = "image-identities"
"""The folder of a run at home with the content of each image, in a file named by the hash of the image's name."""


def identities(home: Path, run: Run) -> dict[str, str]:
    """Return which contents images have on all nodes of a run, as far as that is fixed."""
    paths = {image: _path(home, run, image) for image in _images(run)}
    return {image: path.read_text() for image, path in paths.items() if path.exists()}


def fix_identities(home: Path, run: Run, told: Iterable[StatusReply]) -> None:
    """Fix what nodes have found of images that are not fixed yet: in a file, before any node is told.

    Of images that the task names alone, and only a hash: no node can make others use another image.
    """
    images = _images(run)
    for reply in told if images else ():
        for image, identity in reply.get("images", {}).items():
            if image in images and is_identity(identity):
                made_once(_path(home, run, image), identity.encode)


def _path(home: Path, run: Run, image: str) -> Path:
    return home / "runs" / run.id / FOLDER / sha256(image.encode()).hexdigest()[:16]


def _images(run: Run) -> frozenset[str]:
    return frozenset(group.container.image for group in run.task.groups if group.container)


def request(run: Run, members: Iterable[Member], images: Mapping[str, str]) -> ContainersRequest | None:
    """Return what a node is told about the containers of these members; None where they have none."""
    groups = [run.group(member.group) for member in members]
    specs = [spec for group in groups if (spec := _spec(run, group)) is not None]
    sent = any(group.container and group.container.source is ImageSource.SENT for group in groups)
    return {"specs": specs, "images": dict(images), "sent": sent} if specs else None


def head_request(run: Run, images: Mapping[str, str]) -> ContainersRequest | None:
    """Return what the head is told about its container; None where Ray is that of the nodes.

    Nothing of the user's runs there: it has neither mounts nor GPUs.
    """
    group = run.task.ray_group
    spec = _spec(run, group) if group is not None else None
    if group is None or spec is None:
        return None
    spec["mounts"], spec["shared"], spec["gpus"] = [], [], False
    sent = group.container is not None and group.container.source is ImageSource.SENT
    return {"specs": [spec], "images": dict(images), "sent": sent}


def _spec(run: Run, group: Group) -> ContainerSpec | None:
    asked = group.container
    if asked is None:
        return None
    engine = asked.engine or run.fleet.container_engine
    if engine is None:  # a run always has one since its nodes were checked
        raise LaunchError(f"group `{group.name}` has a container, and no engine was chosen for it")
    return {
        "group": group.name,
        "engine": engine.value,
        "image": asked.image,
        "archive": asked.source is not ImageSource.REGISTRY,
        "options": list(asked.options),
        "mounts": [
            {"source": mount.source, "target": mount.target, "read_only": mount.read_only} for mount in asked.mounts
        ],
        "shared": [to for to in (*run.task.file_mounts, *run.task.bucket_mounts) if to.startswith(("/", "~/"))],
        "workdir": asked.workdir,
        "user": asked.user,
        "gpus": group.gpus > 0,
        "fence": run.fleet.fence_command is not None,
        "ray": group.driver is not None,
    }
