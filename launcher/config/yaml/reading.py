"""What came out of reading a file: values with their places, mistakes and warnings side by side."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from launcher.config.yaml.nodes import NOWHERE, Mark
from launcher.errors import Mistake, SpecError

T = TypeVar("T")


class Reading:
    """Collects everything wrong and everything doubtful in one file, so that one run tells all of it."""

    def __init__(self, where: str, mistakes: Iterable[Mistake] = ()) -> None:
        self.where = where
        self._mistakes = list(mistakes)
        self._warnings: list[Mistake] = []

    def mistake(self, mark: Mark, what: str, hint: str | None = None, *, where: str | None = None) -> None:
        """Note something wrong; `where` names another place than the file, such as `--env`."""
        self._mistakes.append(self._at(mark, what, hint, where))

    def warn(self, mark: Mark, what: str, hint: str | None = None) -> None:
        """Note something that is accepted, and that the user should know."""
        self._warnings.append(self._at(mark, what, hint, None))

    def wrong(self) -> bool:
        """Whether anything is wrong so far."""
        return bool(self._mistakes)

    def warnings(self) -> tuple[Mistake, ...]:
        """Return the warnings in file order, each once."""
        return _in_order(self._warnings)

    def finish(self) -> None:
        """Raise SpecError with all mistakes in file order, if there are any."""
        if self._mistakes:
            raise SpecError(_in_order(self._mistakes))

    def _at(self, mark: Mark, what: str, hint: str | None, where: str | None) -> Mistake:
        return Mistake(what=what, where=where or self.where, line=mark.line, column=mark.column, hint=hint)


def _in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    # A value that several groups inherit is read for each of them; one mistake is enough.
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda one: (one.line, one.column)))


@dataclass(frozen=True, slots=True)
class Spot:
    """Where a value is read: its full name, as messages say it, and what collects them."""

    name: str
    out: Reading

    def inside(self, key: str) -> "Spot":
        """Return the spot of a key of this section; the root has no name."""
        return Spot(f"{self.name}.{key}" if self.name else key, self.out)


@dataclass(frozen=True, slots=True)
class Found:
    """One value of a file; None where it was empty or wrong. `key` is the place of its key."""

    value: object
    mark: Mark = NOWHERE
    key: Mark = NOWHERE


@dataclass(frozen=True, slots=True)
class Values:
    """What a section of a file holds. `rest` has the keys that its table does not name, where it allows any."""

    mark: Mark = NOWHERE
    found: Mapping[str, Found] = field(default_factory=dict)
    rest: Mapping[str, Found] = field(default_factory=dict)
    guessed: frozenset[str] = frozenset()

    def has(self, name: str) -> bool:
        """Whether the key stands in the file with a value, right or wrong, or was most likely meant."""
        return name in self.found or name in self.guessed

    def written(self, *names: str) -> bool:
        """Whether all these keys stand in the file, as they are spelt: only then may one rule out another."""
        return all(name in self.found for name in names)

    def get(self, name: str, kind: type[T]) -> T | None:
        """Return the value of a key; None where it was left out, empty or wrong."""
        value = self.found[name].value if name in self.found else None
        return value if isinstance(value, kind) else None

    def texts(self, name: str) -> tuple[str, ...]:
        """Return a list of texts; empty where it was left out or wrong."""
        return tuple(item for item in self.get(name, tuple) or () if isinstance(item, str))

    def section(self, name: str) -> "Values":
        """Return a section inside this one; one without any key where it was left out."""
        return self.get(name, Values) or Values(self.mark_of(name))

    def entries(self, name: str) -> Mapping[str, Found]:
        """Return a mapping of free keys; empty where it was left out or wrong."""
        return self.get(name, dict) or {}

    def over(self, below: "Values") -> "Values":
        """Return these values, and for what is left out here those of another section."""
        written = {name: one for name, one in self.found.items() if one.value is not None}
        return Values(self.mark, {**below.found, **written})

    def mark_of(self, name: str) -> Mark:
        """Return where the value of a key stands; the section's own place when the key does not."""
        return self.found[name].mark if name in self.found else self.mark

    def key_of(self, name: str) -> Mark:
        """Return where a key stands; the section's own place when it does not."""
        return self.found[name].key if name in self.found else self.mark
