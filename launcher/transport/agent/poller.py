"""Looks at all units of a run: their newest replies.

For a unit without a reply it tells since when there is none; it waits for none of them for long. Its connections carry
single requests too, which spares a machine an interpreter for each.
"""

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, TypeAlias, cast

from launcher.core.model.inventory import Access
from launcher.errors import RemoteError
from launcher.ports import Shell
from launcher.runtime.protocol import Reply, StatusReply, StatusRequest, ViewsRequest
from launcher.runtime.protocol_programs import RelayAnswer
from launcher.transport.agent import replies
from launcher.transport.agent.client import AgentClient, with_protocol
from launcher.transport.agent.connection import MachineConnection
from launcher.transport.agent.stream import aged
from launcher.transport.agent.unit_view import KEPT_S, Changes, Key, UnitStanding, UnitView

PATIENCE_S = 1.0
"""Seconds for which a look waits for units that have not replied yet."""

FIRST_S = 5.0
"""The same for the first look at a run: its connections have to be made, and nothing is known yet."""

MISSED = 0.8
"""The part of `PATIENCE_S` after which a unit that was asked counts as missed: its request was sent a little after the
look began."""

GRACE_S = 2.0
"""Seconds for the way to a machine and back, besides those of its agent."""

FAN_OUT = 256
"""Connections that are made, or written to, at once: a silent machine holds its place for a few seconds."""

MOST = 1000
"""Connections that are kept, if nobody says otherwise."""

IDLE_S = 45.0
"""Seconds without a request after which a connection is closed: before its other end would (`relay.IDLE_S`)."""

SPARED_S = 5.0
"""Seconds without a request after which one may be closed because there are too many."""

LookRequest: TypeAlias = StatusRequest | ViewsRequest


class Poller:
    """The connections to machines, by how they are reached.

    One on which nobody asks for `IDLE_S` is closed, and earlier where there are more than `most`.
    """

    def __init__(self, shell: Shell, most: int = MOST) -> None:
        self._shell = shell
        self._most = most
        self._swept = 0.0
        self._changes = Changes()
        self._pool = ThreadPoolExecutor(max_workers=FAN_OUT, thread_name_prefix="look")
        self._machines: dict[Access | None, MachineConnection] = {}
        self._known: set[str] = set()
        self._closed = False

    def look(self, clients: Sequence[AgentClient], requests: Sequence[LookRequest]) -> list[StatusReply]:
        """Return the newest reply of each unit, within a second or so.

        One that is not `ok` where there is none, or where it is no status.
        """
        begun = time.monotonic()
        asked = {_key(client): (client, with_protocol(one)) for client, one in zip(clients, requests, strict=True)}
        by_machine: dict[Access | None, dict[Key, tuple[AgentClient, dict[str, Any]]]] = {}
        for key, (client, request) in asked.items():
            by_machine.setdefault(client.machine, {})[key] = (client, request)
        runs = {client.layout.run for client in clients}
        patience = PATIENCE_S if runs <= self._known else FIRST_S
        self._known |= runs
        with self._changes:
            views: dict[Key, UnitView] = {}
            for part in by_machine.values():
                views |= self._look(part)
            awaited = _Awaited(views, begun)
            with self._changes.followed_by(awaited.take):
                while not awaited.over and (left := begun + patience - time.monotonic()) > 0:
                    self._changes.wait(left)
                    for key in awaited.again():
                        self._look({key: asked[key]})
                        awaited.take(key)
            now = time.monotonic()
            newest = [_newest(views[_key(client)], now) for client in clients]
            self._close_idle(now)
        return [_status(reply, age) for reply, age in newest]  # takes a while: others may report meanwhile

    def _close_idle(self, now: float) -> None:
        """Close connections that are not used, now and then."""
        if now - self._swept < SPARED_S:
            return
        self._swept = now
        idle = [(now - one.used, at) for at, one in self._machines.items() if one.is_idle]
        surplus = sum(one.is_open for one in self._machines.values()) - self._most
        for at, (unused, machine) in enumerate(sorted(idle, key=lambda one: -one[0])):
            if unused > IDLE_S or (at < surplus and unused > SPARED_S):
                self._pool.submit(self._machines[machine].hang_up)

    def begin(self, clients: Sequence[AgentClient], requests: Sequence[LookRequest]) -> None:
        """Ask units without waiting for them."""
        with self._changes:
            for client, request in zip(clients, requests, strict=True):
                self._look({_key(client): (client, with_protocol(request))})

    def ask(self, client: AgentClient, request: Mapping[str, Any], timeout: float) -> Reply | None:
        """Return an agent's reply to a single request.

        None without a connection, or where it is lost meanwhile; RemoteError where no reply comes in time.
        """
        with self._changes:
            machine = self._machines.get(client.machine)
            asked = machine.begin(client, request, timeout) if machine is not None and not self._closed else None
        return None if asked is None else _await(asked, client, request, timeout)

    def _look(self, part: Mapping[Key, tuple[AgentClient, Mapping[str, Any]]]) -> dict[Key, UnitView]:
        connection = self._connection(next(iter(part.values()))[0])
        connection.look(part)
        return {key: connection.views.setdefault(key, UnitView()) for key in part}

    def _connection(self, client: AgentClient) -> MachineConnection:
        found = self._machines.get(client.machine)
        if found is None:
            found = MachineConnection(self._shell, client.access, client.python, self._changes, self._pool)
            self._machines[client.machine] = found
        return found

    def standing(self, clients: Sequence[AgentClient]) -> list[UnitStanding]:
        """Return how each unit stands by its own replies."""
        with self._changes:
            now = time.monotonic()
            return [self._standing(client, now) for client in clients]

    def _standing(self, client: AgentClient, now: float) -> UnitStanding:
        connection = self._connection(client)
        view = connection.views.setdefault(_key(client), UnitView())
        return view.standing(now, MISSED * PATIENCE_S, connected=connection.is_open)

    def newest(self, client: AgentClient) -> StatusReply:
        """Return the newest reply of a unit, as `look` does, without asking."""
        with self._changes:
            newest = _newest(self._view(client), time.monotonic())
        return _status(*newest)

    def _view(self, client: AgentClient) -> UnitView:
        return self._connection(client).views.setdefault(_key(client), UnitView())

    @contextlib.contextmanager
    def acting(self, clients: Sequence[AgentClient]) -> Iterator[None]:
        """Take note of an action on these units in this block: replies to requests before its end are out of date."""
        with self._changes:
            views = [self._view(client) for client in clients]
            for view in views:
                view.acting += 1
        try:
            yield
        finally:
            with self._changes:
                for view in views:
                    view.acting, view.touched = view.acting - 1, time.monotonic()

    def close(self) -> None:
        """Close all connections."""
        with self._changes:
            self._closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)
        for connection in self._machines.values():
            connection.close()


class _Awaited:
    """The units that a look waits for: each that was asked in it and may still reply.

    No look waits for a unit that let an earlier look wait, or that has not replied for some time. The reply to a
    request from before this look may be older than actions that have ended since: then the unit is asked again.
    """

    def __init__(self, views: Mapping[Key, UnitView], begun: float) -> None:
        self._views = views
        self._begun = begun
        self._late = {key for key, view in views.items() if self._is_late(view)}
        self._before = {key for key, view in views.items() if view.asked is not None and view.asked < begun}
        self._due: list[Key] = []

    @property
    def over(self) -> bool:
        """Whether no unit is left to wait for, or to ask again."""
        return not self._late and not self._due

    def take(self, key: Key) -> bool:
        """Take in a change of a unit; return whether the look has something to do."""
        view = self._views.get(key)
        if view is None:
            return False
        if key in self._before and view.asked is None:
            self._before.discard(key)
            self._due.append(key)
        (self._late.add if self._is_late(view) else self._late.discard)(key)
        return bool(self._due) or not self._late

    def again(self) -> Sequence[Key]:
        """Return the units to ask again, once each."""
        due, self._due = self._due, []
        return due

    def _is_late(self, view: UnitView) -> bool:
        return view.asked is not None and view.asked >= self._begun and view.since is None


def _await(
    asked: "Future[RelayAnswer]", client: AgentClient, request: Mapping[str, Any], timeout: float
) -> Reply | None:
    message = f"no reply from the agent within {timeout:.0f} s"
    if wait((asked,), timeout + GRACE_S).done:
        if asked.exception() is not None:
            return None
        found = asked.result()
        if "answer" in found:
            return cast("Reply", found["answer"])
        message = found.get("message", "no reply")
    raise RemoteError(message, node=client.name, stage=request["op"])


def _key(client: AgentClient) -> Key:
    return (client.layout.run, client.layout.place + client.topic)


def _status(reply: object, age: float) -> StatusReply:
    """Return a reply that is so old (s) as a status; what is none is odd."""
    try:
        return aged(replies.read(StatusReply, reply), age)
    except replies.OddReplyError as error:
        return {"ok": False, "odd": True, "message": f"odd reply: {error}"}


def _newest(view: UnitView, now: float) -> tuple[object, float]:
    """Return the newest reply as it came and its age (s), or why there is none."""
    if view.reply is not None and view.of >= view.touched and now - view.of <= KEPT_S:
        return view.reply, now - view.of
    message = view.trouble if view.since is not None else "no reply in time"
    since = time.strftime("%H:%M:%S UTC", time.gmtime(view.since)) if view.since is not None else ""
    silent: StatusReply = {"ok": False, "message": f"{message}, since {since}" if since else message}
    if view.refusal is not None:
        silent["refusal"] = view.refusal.name
    if (unanswered := view.silence(now)) is not None:
        silent["silent"] = unanswered
    return silent, 0.0
