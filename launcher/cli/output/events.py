"""Entries of a journal as sentences: `released r07-n[01-16]`."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from launcher.cli.output.console import clean
from launcher.core.model.action_key import ActionKey, ActionKind
from launcher.core.model.actions import Level, Unit
from launcher.core.model.nodeset import fold
from launcher.store.journal import Event, EventKind

# Actions by what they do, or by what they end: the intent, and what was done.
_VERBS: Mapping[ActionKind | Level | Unit, tuple[str, str]] = {
    "acquire": ("acquire", "acquired"),
    "prepare": ("prepare", "started to prepare"),
    "start_head": ("start the Ray head", "started the Ray head"),
    "join": ("start the raylet on", "started the raylet on"),
    "park": ("hold the spare", "requested the hold of the spare"),
    "reserve": ("reserve", "requested the reservation of"),
    "unreserve": ("cancel the reservation of", "cancelled the reservation of"),
    "verify": ("verify the reservation of", "verified the reservation of"),
    "start": ("start", "started"),
    "announce": ("tell Ray of the drain of", "told Ray of the drain of"),
    "signal": ("signal the ranks on", "signalled the ranks on"),
    Level.RANK: ("kill the ranks on", "killed the ranks on"),
    Level.GENERATION: ("kill the raylet on", "killed the raylet on"),
    Level.NODE: ("kill all processes of the run on", "killed all processes of the run on"),
    Unit.SLOT: ("release", "released"),
    Unit.HEAD: ("release the Ray head on", "released the Ray head on"),
    "power_off": ("power off", "powered off"),
    "power_query": ("ask for the power of", "asked for the power of"),
    "add_spare": ("add a spare to", "added a spare to"),
    "return_spare": ("give back", "gave back"),
    "relocate": ("relocate", "relocated"),
    "move": ("allot the nodes of a move", "allotted the nodes of a move"),
    "resize": ("resize the run", "resized the run"),
    "grow": ("claim nodes for more slices", "claimed nodes for more slices"),
}
MAX_CHARS = 1000
"""How many characters of one message or log line are shown; a program may write a line of any length."""

_DONE = ("done", "killed", "powered_off")


@dataclass(frozen=True, slots=True)
class _Sentence:
    """What one entry says, with the name apart that neighbours may differ in."""

    when: str
    kind: str
    before: str
    name: str
    after: str
    evidence: tuple[str, ...]

    @property
    def shared(self) -> tuple[object, ...]:
        return self.when, self.kind, self.before, self.after, self.evidence


def event_lines(events: Sequence[Event]) -> Iterator[str]:
    """Return the lines of entries, long ones cut: their JSON is whole.

    Neighbours that differ only in a node or slice share one.
    """
    for _, alike in groupby(map(_sentence, events), lambda one: one.shared):
        first, *others = alike
        name = fold([first.name, *(one.name for one in others)]) if others else first.name
        text = f"{first.before}{name}{first.after}"
        yield clean(f"{first.when}  {first.kind:11}  {_cut(text)}").replace("\n", " ")
        yield from (clean(f"  | {_cut(line)}") for line in first.evidence)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARS else f"{text[:MAX_CHARS]} ..."


def _sentence(event: Event) -> _Sentence:
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    before, name, after = _parts(event)
    if event.times > 1:
        after += f" ({event.times} times)"
    space = " " if before and name else ""
    return _Sentence(when, event.kind.value, f"{before}{space}", name, after, event.evidence)


def _parts(event: Event) -> tuple[str, str, str]:
    """Return the text before the name in an entry, the name, and the text after it."""
    key = event.action
    if key is not None:
        intent, done = _VERBS[key.level or key.unit or key.kind]
        name = _name(key)
        result, _, more = event.message.partition(": ")
        if event.kind is EventKind.RECEIPT and result in _DONE:
            return _before(done, name), name, f": {more}" if more else ""
        return _before(intent, name), name, f": {event.message}"
    if event.kind is EventKind.REQUESTED:
        request, _, target = event.subject.partition(":")
        return request, target, f": {event.message}"
    return "", event.subject, f": {event.message}"


def _before(verb: str, name: str) -> str:
    """Return the verb, without its preposition where no name follows: a head on a machine of its own has none."""
    return verb if name else verb.removesuffix(" on")


def _name(key: ActionKey) -> str:
    """Return the name of what an action is done to; empty for the run or its head."""
    if key.gang is not None:
        return f"{key.node}, gang {key.gang}" if key.node else f"{_ranks(key.gang)} (attempt {key.attempt})"
    return key.node or key.slice or ""


def _ranks(gang: str) -> str:
    """Return the ranks of a gang in words."""
    return "all ranks" if gang == "run" else f"the ranks of {gang}"
