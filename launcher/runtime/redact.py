"""Hides the values of secrets in an agent's replies.

Programs print them, and replies go into journals and reports.
"""

import json
import re
from pathlib import Path
from typing import Any, cast

from . import files
from .protocol import Reply

HIDDEN = "<hidden>"
SHOWN = ("tail", "message")
"""The fields of a reply that hold lines for people; no other one holds what a program printed."""
SHORTEST = 4
"""Characters. A shorter value occurs everywhere: to hide it would tell more than it hides."""


class SecretFilter:
    """Hides the values of a file of secrets in replies, whole and line by line."""

    def __init__(self, secrets: Path) -> None:
        self._path = secrets
        self._stamp = (0, 0)
        self._pattern: re.Pattern[str] | None = None

    def clean(self, reply: Reply) -> Reply:
        """Return the reply without the value of any secret in its lines."""
        self._read()
        return reply if self._pattern is None else cast("Reply", self._clean(reply, shown=False))

    def _read(self) -> None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return  # what was known stays hidden
        if self._stamp == (found.st_mtime_ns, found.st_ino):
            return
        values = [str(value) for value in (files.read(self._path) or {}).values()]
        spelled = {spell for value in values for spell in (value, json.dumps(value)[1:-1], *value.splitlines())}
        longest_first = sorted((spell for spell in spelled if len(spell) >= SHORTEST), key=len, reverse=True)
        self._pattern = re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
        self._stamp = (found.st_mtime_ns, found.st_ino)

    def _clean(self, value: Any, *, shown: bool) -> Any:
        if isinstance(value, dict):
            return {name: self._clean(one, shown=shown or name in SHOWN) for name, one in value.items()}
        if isinstance(value, list):
            return [self._clean(one, shown=shown) for one in value]
        return self._pattern.sub(HIDDEN, value) if shown and self._pattern and isinstance(value, str) else value
