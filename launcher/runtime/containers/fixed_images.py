"""What an agent knows of the contents of images: found on its node, and fixed for the run by the launcher."""

import threading
from collections.abc import Mapping
from pathlib import Path

from .. import files
from ..protocol import Reply, StatusReply
from ..protocol_containers import ARCHIVES, CONTAINERS, ContainersRequest, ImageRequest, is_identity
from .images import ASK_S


class FixedImages:
    """The contents of images by name. Safe to use from several threads."""

    def __init__(self) -> None:
        self._fixed: dict[str, str] = {}
        self._found: dict[str, str] = {}
        self._changed = threading.Condition()

    def add_to(self, status: StatusReply) -> None:
        """Add to a status what was found here of images that are not fixed yet."""
        with self._changed:
            if found := {image: one for image, one in self._found.items() if image not in self._fixed}:
                status["images"] = found

    def fix(self, images: Mapping[str, str]) -> None:
        """Take note of what the launcher has fixed; that never changes."""
        with self._changed:
            for image, identity in images.items():
                if is_identity(identity):
                    self._fixed.setdefault(image, identity)
            self._changed.notify_all()

    def missing(self, folder: Path, asked: ContainersRequest | None) -> bool:
        """Take note of the containers of a run; return whether archives of their images have to be sent."""
        if asked is None:
            return False
        files.write(folder / CONTAINERS, {"containers": asked["specs"]})
        self.fix(asked["images"])
        return asked["sent"] and not (folder / ARCHIVES).exists()

    def asked(self, request: ImageRequest) -> Reply:
        """Return what is fixed of an image. Where the question says what was found here, it may wait some seconds."""
        with self._changed:
            if request["found"]:
                self._found[request["image"]] = request["found"]
                self._changed.wait_for(lambda: request["image"] in self._fixed, ASK_S)
            return {"ok": True, "identity": self._fixed.get(request["image"], "")}
