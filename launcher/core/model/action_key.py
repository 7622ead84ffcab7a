"""Which actions are the same act, and which must not run at the same time."""

import re
from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias, cast

from typing_extensions import assert_never

from launcher.core.model.actions import (
    Acquire,
    Action,
    AddSpare,
    Announce,
    Grow,
    Join,
    Kill,
    Level,
    Move,
    Park,
    PowerOff,
    PowerQuery,
    Prepare,
    Release,
    Relocate,
    Reserve,
    Resize,
    ReturnSpare,
    Signal,
    Start,
    StartHead,
    Unit,
    Unreserve,
    Verify,
)
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import GangName, MemberName

ActionKind: TypeAlias = Literal[
    "acquire",
    "prepare",
    "start_head",
    "join",
    "park",
    "reserve",
    "unreserve",
    "verify",
    "start",
    "announce",
    "signal",
    "kill",
    "release",
    "power_off",
    "power_query",
    "add_spare",
    "return_spare",
    "relocate",
    "move",
    "resize",
    "grow",
]


class ActionKey(NamedTuple):
    """What an action does, and to what.

    Actions with equal keys are the same act, however often it is decided.

    The text of a key (`kill:r1-n1:rank:main/0@1#0`) is its form in the journal; `parse_key` reads it. `attempt` is also
    the number of the cluster whose head is started.
    """

    kind: ActionKind
    unit: Unit | None = None
    node: NodeName | None = None
    level: Level | None = None
    slice: str | None = None
    gang: GangName | None = None
    member: MemberName | None = None
    attempt: int | None = None
    generation: int | None = None

    def __str__(self) -> str:
        """Return the names joined by colons, then `@attempt` and `#generation`."""
        names = (
            self.kind,
            self.unit and self.unit.value,
            self.node,
            self.level and self.level.value,
            self.slice,
            self.gang,
            self.member,
        )
        attempt = "" if self.attempt is None else f"@{self.attempt}"
        generation = "" if self.generation is None else f"#{self.generation}"
        return ":".join(name for name in names if name) + attempt + generation


_TEXT = re.compile(r"([^@#]+)(?:@([0-9]{1,18}))?(?:#([0-9]{1,18}))?")
"""The text of a key: names, attempt, generation. No name of a node, group or slice has `:`, `@` or `#`."""

_NAMES: Mapping[str, tuple[str, ...]] = {
    "acquire": ("node",),
    "prepare": ("node",),
    "start_head": (),
    "join": ("node",),
    "park": ("node",),
    "reserve": ("slice",),
    "unreserve": ("slice",),
    "verify": ("slice",),
    "start": ("gang",),
    "announce": ("node",),
    "signal": ("node", "gang"),
    "kill": ("node", "level", "member"),
    "release": ("unit", "node"),
    "power_off": ("node",),
    "power_query": ("node",),
    "add_spare": ("slice",),
    "return_spare": ("node",),
    "relocate": ("slice",),
    "move": (),
    "resize": (),
    "grow": (),
}
"""The names in the text of a key, by kind."""

_LAST_MAY_LACK = ("signal", "release")
"""Kinds without their last name: a signal to all ranks of a node, and the release of a head on its own machine."""


def parse_key(text: str) -> ActionKey | None:
    """Return the key with this text; None for an action of another version."""
    found = _TEXT.fullmatch(text)
    kind, *names = found[1].split(":") if found else ("",)
    missing = len(_NAMES.get(kind, ())) - len(names)
    if found is None or kind not in _NAMES or not 0 <= missing <= (kind in _LAST_MAY_LACK):
        return None
    of = dict(zip(_NAMES[kind], names, strict=False))
    try:
        unit, level = Unit(of["unit"]) if "unit" in of else None, Level(of["level"]) if "level" in of else None
    except ValueError:
        return None
    return ActionKey(
        kind=cast(ActionKind, kind),
        unit=unit,
        node=NodeName(of["node"]) if "node" in of else None,
        level=level,
        slice=of.get("slice"),
        gang=GangName(of["gang"]) if "gang" in of else None,
        member=MemberName(of["member"]) if "member" in of else None,
        attempt=int(found[2]) if found[2] else None,
        generation=int(found[3]) if found[3] else None,
    )


def key_of(action: Action) -> ActionKey:
    """Return the key of an action."""
    match action:
        case Acquire() | Prepare() | PowerOff() | PowerQuery() | ReturnSpare():
            return ActionKey(action.kind, node=action.node)
        case StartHead():
            return ActionKey(action.kind, attempt=action.cluster or None)
        case Join() | Park() | Announce():
            return ActionKey(action.kind, node=action.slot.node, generation=action.slot.generation)
        case Reserve() | Unreserve() | Verify() | AddSpare() | Relocate():
            return ActionKey(action.kind, slice=action.slice)
        case Start():
            return ActionKey(action.kind, gang=action.gang, attempt=action.attempt)
        case Signal():
            return ActionKey(action.kind, node=action.node, gang=action.gang)
        case Kill():
            return ActionKey(
                action.kind,
                node=action.node,
                level=action.level,
                member=action.member,
                attempt=action.attempt,
                generation=action.generation,
            )
        case Release():
            return ActionKey(action.kind, node=action.node, unit=action.unit)
        case Move() | Resize() | Grow():
            return ActionKey(action.kind)
        case _:
            assert_never(action)


class InFlight:
    """The actions under way, and which others have to wait for them.

    Every question takes constant time.
    """

    def __init__(self, keys: Iterable[ActionKey]) -> None:
        self._keys = frozenset(keys)
        self._kinds = {key.kind for key in self._keys}
        self._starting = {key.gang for key in self._keys if key.kind == "start"}
        self._joining = {key.node for key in self._keys if key.kind == "join"}
        self._heads_released = any(key.kind == "release" and key.unit is Unit.HEAD for key in self._keys)

    def __bool__(self) -> bool:
        """Whether anything is under way."""
        return bool(self._keys)

    def has(self, key: ActionKey) -> bool:
        """Whether this act is under way."""
        return key in self._keys

    def any(self, *kinds: ActionKind) -> bool:
        """Whether an action of one of these kinds is under way."""
        return not self._kinds.isdisjoint(kinds)

    def blocks(self, action: Action) -> bool:
        """Whether an action has to wait until something under way has ended.

        A kill that does not wait for the start that it fences misses what comes up after it; a lease that is taken
        while it is being released is lost again.
        """
        match action:
            case Acquire():
                return ActionKey("release", node=action.node, unit=Unit.SLOT) in self._keys
            case StartHead():
                return self._heads_released
            case Kill(level=Level.RANK):
                return action.gang in self._starting
            case Kill():
                return action.node in self._joining
            case AddSpare() | Relocate():
                return self.any("return_spare")
            case ReturnSpare():
                return self.any("start", "add_spare", "relocate", "move", "resize", "grow")
            case Resize() | Move():
                return self.any("start", "add_spare", "return_spare", "relocate", "move")
            case _:
                return False
