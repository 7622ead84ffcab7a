"""Decisions made again, of what they were made of: the kernel is pure, so they come out the same, or something is
wrong with one of the two versions."""

from collections.abc import Iterable
from dataclasses import dataclass, fields

from launcher.core.actions import Action
from launcher.core.reconcile import Decision, reconcile
from launcher.core.run import Record
from launcher.store.looks import Look, Made


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first decision that came out otherwise: its number from 1, its time (s, of the loop's clock), and in what."""

    number: int
    at: float
    words: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How many decisions were made again, and the first that is another one."""

    count: int
    difference: Difference | None = None


def replay(looks: Iterable[Look]) -> Replayed:
    """Make each decision again until one differs."""
    count = 0
    for count, look in enumerate(looks, start=1):
        again = reconcile(look.run, look.seen, look.record)
        if words := _compared(look.made, again):
            return Replayed(count=count, difference=Difference(number=count, at=look.seen.at, words=words))
    return Replayed(count=count)


def _compared(made: Made, again: Decision) -> tuple[str, ...]:
    words: list[str] = []
    if made.actions != again.actions:
        words += _actions(made.actions, again.actions)
    for what in ("state", "headline"):
        before, now = getattr(made, what), getattr(again, what)
        if before != now:
            words.append(f"{what} was `{_plain(before)}`, is `{_plain(now)}`")
    if made.record != again.record:
        words += _records(made.record, again.record)
    return tuple(words)


def _actions(before: tuple[Action, ...], now: tuple[Action, ...]) -> list[str]:
    was, come = {action.key: action for action in before}, {action.key: action for action in now}
    words = [f"did `{key}` ({was[key].reason.words}), does not" for key in was if key not in come]
    words += [f"does `{key}` ({come[key].reason.words}), did not" for key in come if key not in was]
    words += [f"does `{key}` otherwise" for key in was.keys() & come.keys() if was[key] != come[key]]
    return words or ["does the same in another order"]


def _records(before: Record, now: Record) -> list[str]:
    return [
        f"remembers another `{field.name}`"
        for field in fields(Record)
        if getattr(before, field.name) != getattr(now, field.name)
    ]


def _plain(value: object) -> object:
    return getattr(value, "value", value)
