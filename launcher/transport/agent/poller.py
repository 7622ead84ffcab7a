"""Looks at all units of a run: who has answered lately, who has not and since when. Never waits for one of them.

Its connections are there for single questions too: they spare a machine an interpreter each.
"""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.ports import Shell
from launcher.transport.agent.client import Json, Site
from launcher.transport.agent.connection import KEPT_S, Changes, Eye, Key, Spot

PATIENCE_S = 1.0
"""Seconds for which a look waits for those that have not answered yet."""

FIRST_S = 5.0
"""The same for the first look at a run: its connections have to be made, and nobody has been seen yet."""

GRACE_S = 2.0
"""Seconds for the way to a machine and back, besides those that its agent has."""

FAN_OUT = 256
"""Connections that are made, or written to, at once: a silent machine holds its place for a few seconds."""


class Looks:
    """The machines that are looked at, by how they are reached."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell
        self._changed = Changes()
        self._pool = ThreadPoolExecutor(max_workers=FAN_OUT, thread_name_prefix="look")
        self._eyes: dict[Access | None, Eye] = {}
        self._known: set[str] = set()
        self._closed = False

    def look(self, sites: Sequence[Site], questions: Sequence[Json]) -> list[Json]:
        """Return the newest that each unit says, or that nobody does (`ok` false), within a second or so."""
        begun = time.monotonic()
        asked = {_key(site): (site, question) for site, question in zip(sites, questions, strict=True)}
        wanted: dict[Access | None, dict[Key, tuple[Site, Json]]] = {}
        for key, (site, question) in asked.items():
            wanted.setdefault(site.machine, {})[key] = (site, question)
        runs = {site.layout.run for site in sites}
        patience = PATIENCE_S if runs <= self._known else FIRST_S
        self._known |= runs
        with self._changed:
            spots = {key: spot for machine, part in wanted.items() for key, spot in self._ask(machine, part).items()}
            awaited = _Awaited(spots, begun)
            with self._changed.followed_by(awaited.take):
                while not awaited.over and (left := begun + patience - time.monotonic()) > 0:
                    self._changed.wait(left)
                    for key in awaited.again():
                        self._ask(asked[key][0].machine, {key: asked[key]})
                        awaited.take(key)
            now = time.monotonic()
            return [_answer(spots[_key(site)], now) for site in sites]

    def ask(self, site: Site, question: Json, timeout: float) -> Json | None:
        """Return what the agent of a unit says to a question, over the connection of looks; None where there is none,
        or where it is lost meanwhile. RemoteError where the agent does not answer in time."""
        with self._changed:
            eye = self._eyes.get(site.machine)
            asked = eye.begin(site, question, timeout) if eye is not None and not self._closed else None
        return None if asked is None else _told(asked, site, question, timeout)

    def _ask(self, machine: Access | None, part: Mapping[Key, tuple[Site, Json]]) -> dict[Key, Spot]:
        if not part:
            return {}
        first = next(iter(part.values()))[0]
        eye = self._eyes.get(machine)
        if eye is None:
            eye = Eye(self._shell, first.access, first.python, self._changed, self._pool)
            self._eyes[machine] = eye
        eye.ask(part)
        return {key: eye.spots.setdefault(key, Spot()) for key in part}

    def touch(self, site: Site) -> None:
        """Take note that an action on a unit has ended: what was asked before that says nothing of it any more."""
        with self._changed:
            eye = self._eyes.get(site.machine)
            if eye is not None:
                eye.spots.setdefault(_key(site), Spot()).touched = time.monotonic()

    def close(self) -> None:
        """Let go of all connections."""
        with self._changed:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for eye in self._eyes.values():
            eye.close()


class _Awaited:
    """The units that a look waits for: each that was asked in it and may still answer.

    No look waits for one that let an earlier look wait, or that has not answered for some time. A question of before
    this look may say nothing of the actions that have ended since: where it is answered, it is asked again.
    """

    def __init__(self, spots: Mapping[Key, Spot], begun: float) -> None:
        self._spots = spots
        self._begun = begun
        self._late = {key for key, spot in spots.items() if self._is_late(spot)}
        self._before = {key for key, spot in spots.items() if spot.asked is not None and spot.asked < begun}
        self._due: list[Key] = []

    @property
    def over(self) -> bool:
        """Whether there is nobody to wait for, and nobody to ask again."""
        return not self._late and not self._due

    def take(self, key: Key) -> bool:
        """Take in that what is known of a unit has changed; returns whether the look has something to do."""
        spot = self._spots.get(key)
        if spot is None:
            return False
        if key in self._before and spot.asked is None:
            self._before.discard(key)
            self._due.append(key)
        (self._late.add if self._is_late(spot) else self._late.discard)(key)
        return bool(self._due) or not self._late

    def again(self) -> Sequence[Key]:
        """Return those to ask again, once each."""
        due, self._due = self._due, []
        return due

    def _is_late(self, spot: Spot) -> bool:
        return spot.asked is not None and spot.asked >= self._begun and spot.since is None


def _told(asked: "Future[Json]", site: Site, question: Json, timeout: float) -> Json | None:
    message = f"nothing was heard of the agent within {timeout:.0f} s"
    if wait((asked,), timeout + GRACE_S).done:
        if asked.exception() is not None:
            return None
        told = asked.result()
        if "answer" in told:
            return dict(told["answer"])
        message = str(told.get("message", "the agent says nothing"))
    raise RemoteError(message, node=site.name, stage=question["op"])


def _key(site: Site) -> Key:
    return (site.layout.run, site.layout.place)


def _answer(spot: Spot, now: float) -> Json:
    if spot.answer is not None and spot.of >= spot.touched and now - spot.of <= KEPT_S:
        return _copy(spot.answer)
    message = spot.trouble if spot.since is not None else "it has not answered in time"
    since = time.strftime("%H:%M:%S UTC", time.gmtime(spot.since)) if spot.since is not None else ""
    return {"ok": False, "message": f"{message}, since {since}" if since else message}


def _copy(answer: Json) -> Json:
    """Return a copy that may be added to: what is kept is shown again."""
    return {**answer, "supervisor": dict(answer["supervisor"])} if "supervisor" in answer else dict(answer)
