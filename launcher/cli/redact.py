"""Removes secrets from a report.

By the names of variables, by known values, and by how they are written.
"""

import json
import re
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from typing import Any
from urllib.parse import quote

from launcher.core.model.secret_words import HIDDEN, SHORTEST, is_secret_name, words_of

_LONG = 8
"""From this length on, a value differs from the words around it."""

_NUMBER = re.compile(r"[-+]?[\d.,_]*(?:[eE][-+]?\d+)?")
# The password may have any character, `/` and `@` too; a number after the host's colon is a port, not a password. The
# length is bounded, so that a log full of `://` takes no longer than another.
_USER_INFO = re.compile(
    rf"(?<=://)(?:(?:{HIDDEN}|[^\s/?#@:\"'<>]){{0,256}}:(?!\d+[/?#])(?:{HIDDEN}|[^\s\"'<>]){{0,2048}}"
    rf"|(?:{HIDDEN}|[^\s/?#\"'<>]){{0,2048}})@"
)
_VALUE = r"""["']?(?P<value>(?<=")[^"\n$]+|(?<=')[^'\n$]+|[^\s"'&;|<>$-][^\s"'&;|<>$]*)"""
_ASSIGNED = re.compile(rf"(?<![\w.-])(?P<name>-{{0,2}}[A-Za-z_][\w.-]{{0,128}})={_VALUE}")
_OPTION = re.compile(rf"(?P<name>--[A-Za-z][\w-]*) +{_VALUE}")
_HEADER = re.compile(r"\b(?P<name>Bearer|Basic) +(?P<value>[\w.~+/=-]+)", re.IGNORECASE)

VARIABLES = ("envs", "env")
POWER = ("fence_command", "power_query")


def distinct(value: str) -> bool:
    """Whether a value is distinct enough to be removed from all texts.

    Long, and neither a word nor a number.
    """
    return len(value) >= _LONG and not value.isalpha() and not _NUMBER.fullmatch(value)


def command_passwords(command: str) -> Iterator[str]:
    """Return the passwords in a command line, such as that of `ipmitool -P`."""
    words = words_of(command)
    for word, after in zip(words, [*words[1:], ""], strict=False):
        name, _, value = word.partition("=")
        if value and is_secret_name(name):
            yield value
        elif word == "-P" or (word.startswith("-") and is_secret_name(word)):
            yield after


def values_pattern(values: Iterable[str]) -> tuple[re.Pattern[str] | None, int]:
    """Return what matches these values in all their spellings, and the length of the longest."""
    spelled = {spell for value in values for spell in _spelled(value) if len(spell) >= SHORTEST}
    longest_first = sorted(spelled, key=len, reverse=True)
    if not longest_first:
        return None, 0
    return re.compile("|".join(map(re.escape, longest_first))), len(longest_first[0])


class Redactor:
    """Removes secrets: known values, those in URLs, those with secret names.

    `names` are the names of the run and of nvlaunch: a string that is such a name stays, even where a secret has the
    same value, as decisions depend on it.
    """

    def __init__(self, values: Iterable[str], names: AbstractSet[str] = frozenset()) -> None:
        self._pattern, _ = values_pattern(values)
        self._names = names
        self._known: dict[str, str] = {}

    def data(self, data: bytes) -> bytes:
        """Return the bytes of a log without secrets; bytes that are not UTF-8 stay."""
        return self.text(data.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")

    def text(self, text: str) -> str:
        """Return a text without secrets."""
        if self._pattern is not None:
            text = self._pattern.sub(HIDDEN, text)
        if "://" in text:
            text = _USER_INFO.sub(f"{HIDDEN}@", text)
        if "=" in text:
            text = _ASSIGNED.sub(_unassigned, text)
        if "--" in text:
            text = _OPTION.sub(_unassigned, text)
        return _HEADER.sub(_unassigned, text)

    def shape(self, value: Any) -> Any:
        """Return parsed JSON without secrets.

        Only strings change, never keys, so that it can be parsed as before.
        """
        if isinstance(value, dict):
            return {name: self._item(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.shape(one) for one in value]
        return self._string(value) if isinstance(value, str) else value

    def _item(self, name: str, value: Any) -> Any:
        if name in POWER and value is not None:  # decisions depend only on whether there is one
            return HIDDEN
        if name in VARIABLES and isinstance(value, dict):
            return {one: HIDDEN if is_secret_name(one) else self.shape(said) for one, said in value.items()}
        return self.shape(value)

    def _string(self, text: str) -> str:
        """Return a string without secrets; cached, as a journal repeats few strings."""
        if text not in self._known:
            self._known[text] = text if self._is_name(text) else self.text(text)
        return self._known[text]

    def _is_name(self, text: str) -> bool:
        """Whether a string is a name, or the key of an action.

        A key joins names and numbers.
        """
        first, *rest = re.split("[:@#]", text)
        return text in self._names or (
            first in self._names and all(one in self._names or one.isdigit() for one in rest)
        )


def _spelled(value: str) -> tuple[str, ...]:
    """Return a value in all its spellings: as in JSON, URLs and logs."""
    return (
        value,
        json.dumps(value)[1:-1],
        json.dumps(value, ensure_ascii=False)[1:-1],
        quote(value, safe=""),
        *(line for line in value.splitlines()),
    )


def _unassigned(found: re.Match[str]) -> str:
    name, value = found["name"], found["value"]
    whole: str = found[0]
    loud = name.isupper() or name.startswith("--")  # a variable or an option; others may only count or describe
    if _NUMBER.fullmatch(value) or not (is_secret_name(name) or name.lower() == "basic"):
        return whole
    return whole[: -len(value)] + HIDDEN if loud or distinct(value) else whole
