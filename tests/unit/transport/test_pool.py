"""Which connections of a shell are closed once there are many: those that nobody uses."""

from typing import Any

import pytest

from launcher.core.model.inventory import Access
from launcher.transport.ssh import pool
from launcher.transport.ssh.config import Settings
from launcher.transport.ssh.operation import Operation
from launcher.transport.ssh.pool import ConnectionPool


class Link:
    """A connection that is nowhere."""

    def __init__(self) -> None:
        self.alive = self.is_idle = True

    def retire(self) -> None:
        self.alive = False


def at(name: str, via: Settings | None = None) -> Settings:
    return Settings(address=name, hostname=name, port=22, user="u", known_as=name, via=via)


def resolve(access: Access, op: Operation) -> Settings:
    del op
    return at(access.address)


class Links(ConnectionPool):
    """Of at most four machines without a session."""

    def __init__(self) -> None:
        self.made: dict[str, Link] = {}
        self.dials = 0
        super().__init__(resolve, self._made, kept=4)

    def _made(self, settings: Settings, *_: Any) -> Any:
        self.dials += 1
        self.made[settings.address] = link = Link()
        return link

    def use(self, *names: str, via: Settings | None = None) -> None:
        for name in names:
            self.to(at(name, via), Operation(name, 5.0))

    @property
    def open(self) -> set[str]:
        return {name for name, link in self.made.items() if link.alive}


@pytest.fixture
def links(monkeypatch: pytest.MonkeyPatch) -> Links:
    monkeypatch.setattr(pool, "USED_S", -1.0)
    return Links()


def test_those_used_longest_ago_are_closed(links: Links) -> None:
    links.use("a", "b", "c", "d", "a", "e", "f")
    assert links.open == {"d", "a", "e", "f"}
    links.use("b")
    assert links.dials == 7
    assert "b" in links.open


def test_those_in_use_stay(links: Links) -> None:
    links.use("a", "b", "c")
    links.made["a"].is_idle = links.made["b"].is_idle = False
    links.use(*"defghij")
    assert {"a", "b"} <= links.open
    assert len(links.open) <= 5


def test_a_machine_that_leads_to_others_stays(links: Links) -> None:
    jump = at("jump")
    links.to(jump, Operation("jump", 5.0))
    links.use(*"abcdefgh", via=jump)
    assert "jump" in links.open


def test_one_that_was_just_asked_for_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "USED_S", 60.0)
    links = Links()
    links.use(*"abcdefgh")
    assert links.open == set("abcdefgh"), "whoever asked opens a session on it"
