"""Values of a section as they were read, each with its position."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from launcher.config.yaml.nodes import NOWHERE, Mark

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FieldValue:
    """One value of a file; None if it was empty or wrong.

    `key` is the position of its key.
    """

    value: object
    mark: Mark = NOWHERE
    key: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Values:
    """The entries of a section.

    `rest` has the keys that its table does not name, if it allows any. `guessed` has the known keys that unknown ones
    most likely stand for.
    """

    mark: Mark = NOWHERE
    found: Mapping[str, FieldValue] = field(default_factory=dict)
    rest: Mapping[str, FieldValue] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether the file has this key, or a misspelt form of it, with any value."""
        return name in self.found or name in self.guessed

    def written(self, *names: str) -> bool:
        """Whether the file has all these keys, correctly spelt.

        Only such keys are reported as conflicting.
        """
        return all(name in self.found for name in names)

    def get(self, name: str, kind: type[T]) -> T | None:
        """Return the value of a key; None if it is missing, empty or wrong."""
        value = self.found[name].value if name in self.found else None
        return value if isinstance(value, kind) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty if it is missing or wrong."""
        return tuple(item for item in self.get(name, tuple) or () if isinstance(item, str))

    def section(self, name: str) -> "Values":
        """Return a section inside this one; an empty section if it is missing."""
        return self.get(name, Values) or Values(self.mark_of(name))

    def entries(self, name: str) -> Mapping[str, FieldValue]:
        """Return a mapping of free keys; empty if it is missing or wrong."""
        return self.get(name, dict) or {}

    def over(self, below: "Values") -> "Values":
        """Return these values, completed by those of another section."""
        written = {name: one for name, one in self.found.items() if one.value is not None}
        return Values(self.mark, {**below.found, **written})

    def mark_of(self, name: str) -> Mark:
        """Return the position of a value; that of the section if the key is missing."""
        return self.found[name].mark if name in self.found else self.mark

    def key_of(self, name: str) -> Mark:
        """Return the position of a key; that of the section if the key is missing."""
        return self.found[name].key if name in self.found else self.mark
