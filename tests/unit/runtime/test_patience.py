"""When an agent ends that has stopped its node, and that no launcher asks any more."""

import importlib
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

agent_api = importlib.import_module("launcher.runtime.agent_api")
children = importlib.import_module("launcher.runtime.children")
patience = importlib.import_module("launcher.runtime.patience")
protocol = importlib.import_module("launcher.runtime.protocol")


class World:
    """A clock that is set, and ends that succeed or not."""

    def __init__(self) -> None:
        self.at, self.succeeds = 1000.0, True
        self.ends: list[float] = []
        self.ended = threading.Event()
        self.patience = patience.Patience(600.0, self._end, lambda: self.at)

    def _end(self) -> bool:
        self.ends.append(self.at)
        self.ended.set()
        return self.succeeds

    def tick(self, at: float) -> None:
        self.at = at
        self.patience.tick()


def test_a_stopped_agent_that_nobody_asks_ends_after_the_limit() -> None:
    here = World()
    here.patience.begin()
    here.tick(1599.0)
    assert not here.ends
    here.tick(1600.0)
    assert here.ended.wait(10)
    here.tick(1600.0)
    assert here.ends == [1600.0]


@pytest.mark.parametrize("how", ["asked", "not stopped"])
def test_an_agent_that_is_asked_or_runs_something_does_not_end(how: str) -> None:
    here = World()
    if how == "asked":
        here.patience.begin()
        here.patience.asked()
    here.tick(9000.0)
    assert not here.ends


def test_an_agent_that_could_not_end_tries_again_after_as_long() -> None:
    here = World()
    here.succeeds = False
    here.patience.begin()
    here.tick(1600.0)
    assert here.ended.wait(10)
    here.ended.clear()
    for _ in range(1000):  # the thread of the first try may not be over yet
        here.tick(2200.0)
        if here.ended.wait(0.01):
            break
    assert here.ends == [1600.0, 2200.0]


def test_an_agent_that_stops_its_node_removes_its_secrets_and_asks_for_them_again(tmp_path: Path) -> None:
    scratch = tmp_path / f"nvl-{tmp_path.name}"
    scratch.mkdir()
    (tmp_path / "log").mkdir()
    spec: dict[str, Any] = {"run": "r", "place": "n1", "scratch": str(scratch), "socket": str(scratch / "agent.sock")}
    spec |= {"heartbeat": None, "self_stop": 15.0, "population": 60.0, "abandoned": 600.0}
    spec |= {"login": False, "interpreter": None, "protocol": protocol.PROTOCOL}
    api = agent_api.AgentApi(tmp_path, spec, 6400, children.Children(0o022))
    prepare = {"op": "prepare", "variables": None, "setups": [], "secrets": {"KEY": "hunter2"}, "workdir": False}
    status = {"op": "status", "protocol": protocol.PROTOCOL}
    try:
        assert api.reply({**prepare, "protocol": protocol.PROTOCOL})["ok"]
        kept = Path(api.reply({"op": "environment", "protocol": protocol.PROTOCOL})["secrets"])
        assert "hunter2" in kept.read_text()
        assert api.reply(status)["setup"]["phase"] == "done"
        api.stop_itself("no answer from the head's machine")
        assert not kept.exists()
        assert api.reply(status)["setup"]["phase"] == "absent"
        assert api.reply({**prepare, "protocol": protocol.PROTOCOL})["ok"]
        assert api.reply(status)["setup"]["phase"] == "done"
        assert kept.exists()
    finally:
        shutil.rmtree(Path("/dev/shm") / scratch.name, ignore_errors=True)
