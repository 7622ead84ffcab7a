"""Repeat recorded decisions: the kernel is pure, so each must come out the same."""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, fields

from launcher.core.control.reconcile import Decision, reconcile
from launcher.core.model.action_key import key_of
from launcher.core.model.actions import Action
from launcher.core.model.record import Record
from launcher.core.model.secret_words import HIDDEN
from launcher.store.codec import dump
from launcher.store.decision_log import LoggedDecision, Made, made_of

_ANYTHING = r'(?:[^"\\]|\\.)*'
"""What may have stood inside a JSON string."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The first decision that differs: its number from 1, its time (s), and how."""

    number: int
    at: float
    messages: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """How many decisions were repeated, and the first that differs."""

    count: int
    difference: Difference | None = None


def replay(looks: Iterable[LoggedDecision]) -> Replayed:
    """Repeat each decision until one differs."""
    count = 0
    for count, look in enumerate(looks, start=1):
        again = reconcile(look.run, look.seen, look.record)
        if messages := _compared(look.made, again):
            return Replayed(count=count, difference=Difference(number=count, at=look.seen.at, messages=messages))
    return Replayed(count=count)


def _compared(made: Made, again: Decision) -> tuple[str, ...]:
    now = made_of(again)
    if made == now:
        return ()
    before, after = json.loads(dump(Made, made)), json.loads(dump(Made, now))
    messages: list[str] = []
    if made.actions != now.actions and not _alike(before["actions"], after["actions"]):
        messages += _actions(made.actions, now.actions)
    for what in ("state", "status_message"):
        if not _alike(before[what], after[what]):
            messages.append(f"{what} was `{before[what]}`, is `{after[what]}`")
    for field in fields(Record):
        same = getattr(made.record, field.name) == getattr(now.record, field.name)
        if not same and not _alike(before["record"][field.name], after["record"][field.name]):
            messages.append(f"record field `{field.name}` differs")
    return tuple(messages)


def _alike(before: object, now: object) -> bool:
    """Whether a recorded decision may have been this one before values were hidden."""
    was, come = (json.dumps(one, sort_keys=True) for one in (before, now))
    return re.fullmatch(_ANYTHING.join(map(re.escape, was.split(HIDDEN))), come) is not None


def _actions(before: tuple[Action, ...], now: tuple[Action, ...]) -> list[str]:
    was, come = ({key_of(action): action for action in made} for made in (before, now))
    messages = [f"`{key}` is missing ({was[key].reason.message})" for key in was if key not in come]
    messages += [f"`{key}` is new ({come[key].reason.message})" for key in come if key not in was]
    messages += [f"`{key}` differs" for key in was.keys() & come.keys() if was[key] != come[key]]
    return messages or ["the order of the actions differs"]
