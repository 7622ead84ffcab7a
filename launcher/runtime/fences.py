"""Raylets and ranks that must not start here again, because a kill was confirmed.

A request from before the kill may arrive late, over a connection that hung or from a controller that died. Without
this record it would start what everybody counts as dead. It is written before anything is killed.
"""

import logging
import threading
from pathlib import Path

from . import files


class Fences:
    """The generation and attempt of each member that are over on this node.

    Everything up to them is over too. Kept in a file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        kept = files.read(path) or {}
        self._generations: dict[str, int] = kept.get("generations", {})
        self._attempts: dict[str, int] = kept.get("attempts", {})

    def raise_to(self, level: str, member: str, generation: int, attempt: int) -> None:
        """Record a kill; one of the whole node ends nothing for good."""
        over, until = {"generation": (self._generations, generation), "rank": (self._attempts, attempt)}.get(
            level, ({}, 0)
        )
        if not member or over.get(member, -1) >= until:
            return
        with self._turn:
            over[member] = until
            try:
                files.write(self._path, {"generations": self._generations, "attempts": self._attempts})
            except OSError:  # a full disk must not keep anything alive; this process remembers
                logging.exception("cannot write `%s`", self._path)

    def against_raylet(self, member: str, generation: int) -> str:
        """Return why a raylet must not start; an empty string where it may."""
        if generation > self._generations.get(member, -1):
            return ""
        return f"generation {generation} of `{member}` is over on this node: it was killed"

    def against_rank(self, member: str, generation: int, attempt: int) -> str:
        """Return why a rank must not start; an empty string where it may."""
        if generation <= self._generations.get(member, -1):
            return f"generation {generation} of `{member}` is over on this node: it was killed"
        if attempt <= self._attempts.get(member, -1):
            return f"attempt {attempt} of `{member}` is over on this node: it was killed"
        return ""
