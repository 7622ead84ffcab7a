"""What the YAML library says of a broken file, in words that help to mend it."""

import re

import yaml

from launcher.errors import Mistake

# (in the library's problem, what to do); the first that matches wins
_HINTS = (
    (r"mapping values are not allowed", "quote the value if it holds `: `, or correct the indentation of the line"),
    (r"could not find expected ':'", "write the line as `key: value`"),
    (r"unexpected end of stream", "close the quote that opens here"),
    (r"unknown escape character", "single quotes take a backslash as it is"),
    (r"character .* cannot start any token", "quote the value"),
    (r"expected <block end>", "the line is indented differently from the lines it belongs to"),
    (r"expected ',' or '[\]}]'", "a comma or a closing bracket is missing before this place"),
)
# Where these begin says more than where they are noticed.
_AT_START = r"could not find expected ':'|unexpected end of stream"


def syntax_mistake(error: yaml.MarkedYAMLError, text: str, where: str) -> Mistake:
    """Return the mistake for text that is not YAML, with the line to look at."""
    begins = error.context_mark and re.search(_AT_START, error.problem or "")
    mark = error.context_mark if begins else error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    broken = lines[line] if line < len(lines) else ""
    indent = broken[: len(broken) - len(broken.lstrip())]
    if "\t" in indent:
        what = "a tab in the indentation, where YAML takes spaces only"
        hint = "replace the tab with spaces"
        return Mistake(what=what, where=where, line=line + 1, column=indent.index("\t") + 1, hint=hint)
    problem = (error.problem or "cannot be read").rstrip(".")
    hints = [hint for pattern, hint in _HINTS if re.search(pattern, problem)]
    return Mistake(
        what=f"not valid YAML: {problem}",
        where=where,
        line=line + 1,
        column=column + 1,
        hint=hints[0] if hints else None,
    )
