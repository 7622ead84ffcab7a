"""Text of logs for people: whole lines, without what would change a terminal, secrets or the states of a progress bar.

Programs print what they like: bytes that are no text, sequences that move the cursor or set the title, lines of 10 MB.
"""

import codecs
import re
from collections.abc import Iterator

from launcher.cli.output.console import clean

LINE_CHARS = 4000
"""The longest line that is shown; the rest of a longer one is left out."""

BAR_S = 5.0
"""How often the state of a line that is written anew (by a carriage return) is shown (s)."""

MOST_LINES = 2000
"""How many lines of one log are shown at once."""

HIDDEN = "<hidden>"

# CSI, OSC and its kin up to their end, then any other escape (ECMA-48, 5.4 and 8.3.89).
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]?|\x9b[0-?]*[ -/]*[@-~]"
)


class LogText:
    """The lines of one log, which comes in pieces of bytes.

    `secrets` matches what is blanked, `longest` characters at most: also where a value comes in two pieces.
    """

    def __init__(self, secrets: re.Pattern[str] | None = None, longest: int = 0) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._secrets = secrets
        self._most = LINE_CHARS + longest + 1
        self._rest = ""
        self._bar = ""
        self._cut = False
        self._shown_at = float("-inf")

    def feed(self, data: bytes, now: float) -> list[str]:
        """Return the lines that are complete now, and every few seconds the state of a progress bar (s, any clock)."""
        *ended, self._rest = (self._rest + self._decoder.decode(data)).split("\n")
        lines = [line for part in ended for line in self._end(part)]
        if self._cut:
            self._rest = ""
        elif "\r" in self._rest[:-1]:  # one at the end may be half of a line end
            before, _, after = self._rest[:-1].rpartition("\r")
            self._rest = after + self._rest[-1]
            self._bar = _last_state(before) or self._bar
            if self._bar and now - self._shown_at >= BAR_S:
                lines.append(self._line(self._bar))
                self._shown_at, self._bar = now, ""
        if len(self._rest) > self._most:
            lines.append(self._line(self._rest))
            self._rest, self._cut = "", True
        if len(lines) > MOST_LINES:
            lines = [f"... {len(lines) - MOST_LINES} lines left out", *lines[-MOST_LINES:]]
        return lines

    def finish(self) -> list[str]:
        """Return the last line, where it has no end."""
        rest, self._rest = self._rest + self._decoder.decode(b"", final=True), ""
        return list(self._end(rest)) if rest.strip() or self._bar else []

    def _end(self, part: str) -> Iterator[str]:
        cut, self._cut = self._cut, False
        if not cut:
            yield self._line(_last_state(part) or self._bar)
        self._bar = ""

    def _line(self, text: str) -> str:
        text = text[: self._most]
        if self._secrets is not None:
            text = self._secrets.sub(HIDDEN, text)
        long = " ..." if len(text) > LINE_CHARS else ""
        return clean(_ESCAPES.sub("", text[:LINE_CHARS])) + long


def _last_state(part: str) -> str:
    """Return what is left of a line after its carriage returns."""
    return next((state for state in reversed(part.split("\r")) if state.strip()), "")
