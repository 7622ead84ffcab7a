"""What a program printed of its secrets is taken out of what its agent says: that goes into journals and reports."""

import json
import re
from pathlib import Path
from typing import Any

from . import files

HIDDEN = "<hidden>"
SHOWN = ("tail", "message")
"""Where an answer has lines for people; everything else is for programs, and never holds what a program printed."""
SHORTEST = 4
"""A value of fewer characters is found everywhere; to blank it out would tell more than it hides."""


class Blank:
    """Takes the values of a file of secrets out of answers, as they are and line by line."""

    def __init__(self, secrets: Path) -> None:
        self._path = secrets
        self._stamp = (0, 0)
        self._pattern: re.Pattern[str] | None = None

    def of(self, answer: dict[str, Any]) -> dict[str, Any]:
        """Return the same without the value of any secret in its lines."""
        self._read()
        return answer if self._pattern is None else self._clean(answer, shown=False)

    def _read(self) -> None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return  # what was known is still not for others
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
