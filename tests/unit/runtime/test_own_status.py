"""What counts as a change of a node's status: an event does, time that passes does not."""

import json
from typing import Any

from launcher.runtime.own_status import STEP_S, OwnStatus
from launcher.runtime.protocol_views import CALM_S, DIRECT, unpacked


class Node:
    """A node with one rank, and a clock that the test moves."""

    def __init__(self) -> None:
        self.now = 100.0
        self.rank: dict[str, Any] = {"member": "main/0", "attempt": 1, "running": True, "quiet": 0.0}
        self.ray: dict[str, Any] = {"phase": "running", "generation": 0, "message": ""}
        self.more: dict[str, Any] = {}
        self.news = 0
        self.own = OwnStatus(self._make, lambda: self.now)
        self.own.changed = self._count
        self.own.numbered()

    def _make(self) -> Any:
        return {"ok": True, "agent": 7, "ray": self.ray, "ranks": [self.rank.copy()], **self.more}

    def _count(self) -> None:
        self.news += 1

    def after(self, seconds: float, **rank: object) -> int:
        """Let time pass, and the rank change; return how many versions there are."""
        self.now += seconds
        self.rank.update(rank)
        version = self.own.numbered()["version"][1]
        assert version == self.news
        return version


def test_a_rank_that_writes_now_and_then_changes_nothing() -> None:
    node = Node()
    for quiet in (0.5, 3.0, 0.0, CALM_S - 0.1, 0.2):
        assert node.after(1.0, quiet=quiet) == 1


def test_a_rank_that_falls_silent_is_news_once_and_again_when_it_writes() -> None:
    node = Node()
    assert node.after(CALM_S, quiet=CALM_S) == 2
    assert node.after(300.0, quiet=CALM_S + 300.0) == 2
    assert node.after(1.0, quiet=CALM_S + 20.0) == 3, "it wrote in between"
    assert node.after(1.0, quiet=0.5) == 4


def test_an_end_is_news_once_however_long_ago_it_is() -> None:
    node = Node()
    assert node.after(0.2, running=False, exit_code=1, ended_ago=0.1, tail=["bad"]) == 2
    assert node.after(600.0, ended_ago=600.1) == 2


def test_steps_alone_are_sent_now_and_then() -> None:
    node = Node()
    assert node.after(1.0, step={"step": 5, "over": 5}) == 1
    assert node.after(STEP_S, step={"step": 9, "over": 9}) == 2
    assert node.after(STEP_S, step={"step": 9, "over": 9}) == 2


def test_another_message_is_news_and_stays_on_the_node() -> None:
    """As when a setup follows the making of an environment: the launcher asks the node for the words."""
    node = Node()
    node.more["setup"] = {"phase": "running", "generation": 0, "message": "making a Python environment"}
    assert node.after(1.0) == 2
    node.more["setup"] = {"phase": "running", "generation": 0, "message": ""}
    assert node.after(1.0) == 3
    node.more["setup"] = {"phase": "running", "generation": 0, "message": "hunter2"}
    assert node.after(1.0) == 4
    newest = node.own.newest
    assert newest is not None
    assert b"hunter2" not in unpacked(newest.data.decode())


def test_a_direct_reply_has_the_version_that_goes_to_the_head() -> None:
    node = Node()
    direct = node.own.numbered()
    newest = node.own.newest
    assert newest is not None
    assert direct["version"][1] == newest.version == 1
    assert newest.at == node.now


def test_another_agent_has_another_name_for_its_versions() -> None:
    assert Node().own.numbered()["version"][0] != Node().own.numbered()["version"][0]


def test_a_status_that_is_too_large_is_not_sent() -> None:
    node = Node()
    node.rank["member"] = "".join(f"{at * at * 7919:x}" for at in range(2000))
    node.own.numbered()
    newest = node.own.newest
    assert newest is not None
    assert newest.data == DIRECT.encode()


def test_what_programs_print_does_not_go_to_the_head() -> None:
    node = Node()
    node.rank.update(running=False, exit_code=1, ended_ago=0.1, tail=["the password is hunter2"])
    node.ray = {"phase": "failed", "generation": 0, "message": "hunter2", "exit_code": 1, "tail": ["hunter2"]}
    mount = {"to": "/hunter2", "url": "s3://hunter2", "up": False, "message": "hunter2", "unsent": 3, "unsent_bytes": 4}
    node.more = {
        "mounts": [mount],
        "fault": {"stage": "rank", "path": "/hunter2", "errno": "EIO"},
        "images": {"hunter2": "sha256:1"},
        "message": "hunter2",
    }
    assert "hunter2" in str(node.own.numbered())
    newest = node.own.newest
    assert newest is not None
    sent = json.loads(unpacked(newest.data.decode()))
    assert "hunter2" not in str(sent)
    assert (sent["ranks"][0]["exit_code"], sent["ray"]["phase"]) == (1, "failed")
    assert sent["mounts"][0]["message"], "that something is wrong is said"
    assert sent["fault"]["errno"] == "EIO"
    assert "images" in sent
