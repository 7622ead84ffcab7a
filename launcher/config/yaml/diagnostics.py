"""Mistakes and warnings of one file, collected to be reported together."""

from collections.abc import Iterable
from dataclasses import dataclass

from launcher.config.yaml.nodes import Mark
from launcher.errors import Mistake, SpecError


class Diagnostics:
    """Collects the mistakes and warnings of one file.

    `where` is the name of the file in messages.
    """

    def __init__(self, where: str, mistakes: Iterable[Mistake] = ()) -> None:
        self.where = where
        self._mistakes = list(mistakes)
        self._warnings: list[Mistake] = []

    def mistake(self, mark: Mark, what: str, hint: str | None = None, *, where: str | None = None) -> None:
        """Add a mistake; `where` replaces the name of the file, for example by `--env`."""
        self._mistakes.append(self._at(mark, what, hint, where))

    def warn(self, mark: Mark, what: str, hint: str | None = None, *, where: str | None = None) -> None:
        """Add a warning: the file is accepted, but the user should know. `where` as for `mistake`."""
        self._warnings.append(self._at(mark, what, hint, where))

    def has_mistakes(self) -> bool:
        """Whether there is a mistake so far."""
        return bool(self._mistakes)

    def warnings(self) -> tuple[Mistake, ...]:
        """Return the warnings in file order, without duplicates."""
        return _in_order(self._warnings)

    def finish(self) -> None:
        """Raise SpecError with all mistakes and warnings in file order, if there are mistakes."""
        if self._mistakes:
            raise SpecError(_in_order(self._mistakes), self.warnings())

    def _at(self, mark: Mark, what: str, hint: str | None, where: str | None) -> Mistake:
        return Mistake(what=what, where=where or self.where, line=mark.line, column=mark.column, hint=hint)


def _in_order(mistakes: Iterable[Mistake]) -> tuple[Mistake, ...]:
    # A value that several groups inherit is read once for each of them, but is reported once.
    return tuple(sorted(dict.fromkeys(mistakes), key=lambda one: (one.line, one.column)))


@dataclass(frozen=True, slots=True)
class KeyPath:
    """The full name of a value, and the collector of its mistakes.

    Messages show the name, for example `recovery.max_restarts`.
    """

    name: str
    out: Diagnostics

    def inside(self, key: str) -> "KeyPath":
        """Return the path of a key in this section; the root has no name."""
        return KeyPath(f"{self.name}.{key}" if self.name else key, self.out)
