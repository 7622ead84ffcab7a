"""The rows of an imaginary fleet: one for each node, one for each run.

Times are in seconds. Only what was done to the fleet is kept. What follows from it (a raylet that is up, a rank that
has ended, a machine without power) is a function of these rows, the settings and the time: see `lives` and `ray`.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, Protocol

NEVER = float("inf")


class Rows(Protocol):
    """Where the rows are kept.

    Commands and controllers of several processes see one fleet.
    """

    def world(self, fleet: str) -> str | None:
        """Return the text stored under a key; None for none."""

    def save_world(self, fleet: str, text: str) -> None:
        """Store a text under a key."""

    def save_worlds(self, texts: Mapping[str, str]) -> None:
        """Store texts under their keys: all, or none."""


class MemoryRows:
    """Rows of one process, in a dictionary."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    def world(self, fleet: str) -> str | None:
        """Return the text stored under a key; None for none."""
        return self.texts.get(fleet)

    def save_world(self, fleet: str, text: str) -> None:
        """Store a text under a key."""
        self.texts[fleet] = text

    def save_worlds(self, texts: Mapping[str, str]) -> None:
        """Store texts under their keys."""
        self.texts.update(texts)


class HeldRows:
    """Rows that are kept in memory during a block, and stored at once at its end: thousands take as long as one.

    What is read there is read once: a block is one moment.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._held: dict[str, str] | None = None
        self._known: dict[str, str | None] = {}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Store what is saved in this block at its end."""
        held: dict[str, str] = {}
        self._held, self._known = held, {}
        try:
            yield
        finally:
            self._held = None
            if held:
                self._rows.save_worlds(held)

    def world(self, fleet: str) -> str | None:
        """Return the text under a key, one of this block first; None for none."""
        if self._held is None:
            return self._rows.world(fleet)
        if fleet in self._held:
            return self._held[fleet]
        if fleet not in self._known:
            self._known[fleet] = self._rows.world(fleet)
        return self._known[fleet]

    def save_world(self, fleet: str, text: str) -> None:
        """Store a text under a key, or hold it."""
        self.save_worlds({fleet: text})

    def save_worlds(self, texts: Mapping[str, str]) -> None:
        """Store texts under their keys, or hold them."""
        if self._held is None:
            self._rows.save_worlds(texts)
        else:
            self._held.update(texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A setup that was begun on a node, for which member."""

    member: str
    begun_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Raylet:
    """A raylet that was begun on a node for a slot.

    `ended_at` is when a kill killed it.
    """

    slot: str
    generation: int
    begun_at: float
    ended_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rank:
    """A rank that was begun under a raylet of a node.

    `signalled` is the number of the stop signal it got.
    """

    member: str
    attempt: int
    restarts: int
    generation: int
    master: str
    begun_at: float
    ended_at: float | None = None
    signalled: int | None = None
    signalled_at: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimHost:
    """A node: the run that has its lease, and all that was begun on it.

    `agent_at` is since when its agent runs, `agent_dies` when a fault of that run ends it, `off_at` when it was last
    powered off on request.
    """

    run: str | None = None
    agent_at: float | None = None
    agent_dies: float = NEVER
    off_at: float | None = None
    setup: Setup | None = None
    raylets: tuple[Raylet, ...] = ()
    ranks: tuple[Rank, ...] = ()

    def killed(self, now: float, raylets: Iterable[Raylet], ranks: Iterable[Rank]) -> "SimHost":
        """Return the node after these of its raylets and ranks were killed at `now`."""
        gone, ended = set(raylets), set(ranks)
        return replace(
            self,
            raylets=tuple(replace(r, ended_at=r.ended_at or now) if r in gone else r for r in self.raylets),
            ranks=tuple(replace(r, ended_at=r.ended_at or now) if r in ended else r for r in self.ranks),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RayGroup:
    """A placement group that is asked for since a time.

    `labels` are those of the raylets of its bundles; without any, they are those of the slice's slots.
    """

    since: float
    labels: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Ray:
    """The Ray head of a run.

    `since` its tables exist, `begun_at` its newest process; `groups` are the placement groups of slices, and those that
    hold spares, by name. `node` is where it lives, None for a machine of its own, and `cluster` which incarnation of
    the run's Ray it is.
    """

    since: float
    begun_at: float
    groups: Mapping[str, RayGroup]
    node: str | None = None
    cluster: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The machine of the head from a time on.

    `node` None is a machine of its own.
    """

    since: float
    node: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SimWorld:
    """What a run did to the fleet besides its nodes.

    Its faults are counted from `began_at`. `watches` has every place where its head was, in order.
    """

    began_at: float | None = None
    ray: Ray | None = None
    watches: tuple[Watch, ...] = ()


def dump(row: SimHost | SimWorld) -> str:
    """Return the text of a row."""
    return _WRITER.encode(row)


def load_host(text: str | None) -> SimHost:
    """Return the node that a text describes; a free one where there is none."""
    if text is None:
        return SimHost()
    row: dict[str, Any] = json.loads(text)
    setup = row.pop("setup")
    raylets = tuple(Raylet(**raylet) for raylet in row.pop("raylets"))
    ranks = tuple(Rank(**rank) for rank in row.pop("ranks"))
    return SimHost(setup=Setup(**setup) if setup else None, raylets=raylets, ranks=ranks, **row)


def load_world(text: str | None) -> SimWorld:
    """Return the run's part that a text describes.

    One that has not begun where there is none.
    """
    if text is None:
        return SimWorld()
    row: dict[str, Any] = json.loads(text)
    watches = tuple(Watch(**watch) for watch in row["watches"])
    return SimWorld(began_at=row["began_at"], ray=_ray(row["ray"]) if row["ray"] else None, watches=watches)


def _ray(row: dict[str, Any]) -> Ray:
    groups = {  # a row of an earlier version has only the time
        key: RayGroup(since=one["since"], labels=tuple(one["labels"])) if isinstance(one, dict) else RayGroup(since=one)
        for key, one in row["groups"].items()
    }
    return Ray(**{**row, "groups": groups})


def _plain(value: object) -> dict[str, object]:
    if not is_dataclass(value):
        raise TypeError(f"no part of the world: {value!r}")
    return {name: getattr(value, name) for name in value.__dataclass_fields__}


_WRITER = json.JSONEncoder(default=_plain, separators=(",", ":"))
