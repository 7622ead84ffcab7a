"""Which raylets and ranks must not start here any more, because a kill has answered that they are gone.

A question of before the kill may come late, from a connection that hung or from a controller that died: without this
memory it would start what everybody takes for dead. It is written down before anything is killed.
"""

import logging
import threading
from pathlib import Path
from typing import Any

from . import files


class Fences:
    """For each member the generation and the attempt up to which all is over on this node; kept beside the agent."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._turn = threading.Lock()
        kept = files.read(path) or {}
        self._generations: dict[str, int] = kept.get("generations", {})
        self._attempts: dict[str, int] = kept.get("attempts", {})

    def raise_to(self, level: str, member: str, generation: int, attempt: int) -> None:
        """Take note of a kill; one of the whole node ends nothing for good."""
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

    def against_raylet(self, question: dict[str, Any]) -> str:
        """Return why a raylet must not start; an empty string where it may."""
        member, generation = question.get("member", ""), question["generation"]
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
