"""Read variables from a file of `KEY=VALUE` lines, for `--env-file`."""

import re
from pathlib import Path

from launcher.config.schema.patterns import ENV_NAME
from launcher.config.yaml.text_file import read_text
from launcher.errors import Mistake, SpecError

_LINE = re.compile(rf"(?:export\s+)?(?P<name>{ENV_NAME})\s*=\s*(?P<value>.*)")
_QUOTED = re.compile(r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>[^']*)')\s*(?:#.*)?""")
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "$": "$"}


def read_env_file(path: Path) -> dict[str, str]:
    """Return the variables of a file; SpecError with every line that is wrong.

    The last value of a name counts. Lines are `KEY=VALUE`, `export KEY=VALUE`, comments, or blank. Single quotes keep
    text as it is, double quotes allow backslash escapes, and unquoted text ends at ` #`. Variables are not expanded.
    """
    variables: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for number, line in enumerate(re.split(r"\r\n|\r|\n", read_text(path, what="file of variables")), start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        match = _LINE.fullmatch(text)
        value = _value(match["value"]) if match else None
        if match and value is not None:
            variables[match["name"]] = value
            continue
        # The line may contain a secret: it is not shown.
        what, hint = _complaint(match is not None, text)
        mistakes.append(Mistake(what=what, where=str(path), line=number, column=1, hint=hint))
    if mistakes:
        raise SpecError(tuple(mistakes))
    return variables


def _complaint(named: bool, text: str) -> tuple[str, str]:
    if named:
        return "the quote is not closed, or text follows it", "end the quoted value on the same line"
    if "=" not in text:
        return "the line is not `KEY=VALUE`", "write `KEY=` for an empty value"
    return "the text before `=` is not a valid variable name", "use letters, digits and `_`; do not begin with a digit"


def _value(text: str) -> str | None:
    """Return a value without quotes and escapes; None if its quotes are broken."""
    if not text.startswith(("'", '"')):
        return re.split(r"\s+#|^#", text, maxsplit=1)[0].rstrip()
    match = _QUOTED.fullmatch(text)
    if match is None:
        return None
    if match["single"] is not None:
        return match["single"]
    return re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[0]), match["double"])
