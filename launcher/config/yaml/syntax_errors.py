"""Syntax errors of the YAML library as mistakes with hints."""

import re

import yaml

from launcher.errors import Mistake

# Pattern of the library's message, and the hint; the first match counts.
_HINTS = (
    (r"mapping values are not allowed", "quote the value if it contains `: `, or correct the indentation of the line"),
    (r"could not find expected ':'", "write the line as `key: value`"),
    (r"unexpected end of stream", "close the quote that opens here"),
    (r"unknown escape character", "use single quotes, which keep a backslash as it is"),
    (r"character .* cannot start any token", "quote the value"),
    (r"expected <block end>", "indent the line like the lines that it belongs to"),
    (r"expected ',' or '[\]}]'", "add the comma or the closing bracket that is missing before this position"),
)
# These are reported where they begin, not where the library notices them.
_AT_START = r"could not find expected ':'|unexpected end of stream"


def syntax_mistake(error: yaml.MarkedYAMLError, text: str, where: str) -> Mistake:
    """Return the mistake for text that is not YAML, with its position and a hint."""
    begins = error.context_mark and re.search(_AT_START, error.problem or "")
    mark = error.context_mark if begins else error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    broken = lines[line] if line < len(lines) else ""
    indent = broken[: len(broken) - len(broken.lstrip())]
    if "\t" in indent:
        what = "tab in the indentation; YAML allows only spaces"
        hint = "replace the tab with spaces"
        return Mistake(what=what, where=where, line=line + 1, column=indent.index("\t") + 1, hint=hint)
    problem = (error.problem or "cannot be parsed").rstrip(".")
    hints = [hint for pattern, hint in _HINTS if re.search(pattern, problem)]
    return Mistake(
        what=f"not valid YAML: {problem}",
        where=where,
        line=line + 1,
        column=column + 1,
        hint=hints[0] if hints else None,
    )
