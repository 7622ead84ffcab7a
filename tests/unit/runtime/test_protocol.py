"""What an agent does with requests of its own protocol and of others, and that the types load on a bare Python."""

import importlib
import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

agent_api = importlib.import_module("launcher.runtime.agent_api")
children = importlib.import_module("launcher.runtime.children")
protocol = importlib.import_module("launcher.runtime.protocol")


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Any]:
    """An agent's replies, without an agent."""
    scratch = tmp_path / f"nvl-{tmp_path.name}"
    scratch.mkdir()
    (tmp_path / "log").mkdir()
    spec = {
        "protocol": protocol.PROTOCOL,
        "run": "r",
        "place": "n1",
        "scratch": str(scratch),
        "socket": str(scratch / "agent.sock"),
        "heartbeat": None,
        "self_stop": 15.0,
        "population": 60.0,
        "abandoned": 600.0,
        "login": False,
        "interpreter": None,
    }
    yield agent_api.AgentApi(tmp_path, spec, 6400, children.Children(0o022))
    shutil.rmtree(Path("/dev/shm") / scratch.name, ignore_errors=True)


def test_a_request_of_another_protocol_is_refused_with_both_numbers(api: Any) -> None:
    for other in (protocol.PROTOCOL + 1, None):
        reply = api.reply({"op": "status", "protocol": other})
        assert (reply["ok"], reply["protocol"]) == (False, protocol.PROTOCOL)
        assert f"protocol {other or 'unknown'}, not {protocol.PROTOCOL}" in reply["message"]


def test_a_request_of_this_protocol_is_answered(api: Any) -> None:
    reply = api.reply({"op": "status", "protocol": protocol.PROTOCOL})
    assert (reply["ok"], reply["protocol"], reply["block"]) == (True, protocol.PROTOCOL, 6400)
    assert "unknown request `dance`" in api.reply({"op": "dance", "protocol": protocol.PROTOCOL})["message"]


def test_whether_it_lives_an_agent_tells_whoever_asks(api: Any) -> None:
    assert api.reply({"op": "hello"}) == {"ok": True, "protocol": protocol.PROTOCOL, "block": 6400}


def test_secrets_are_hidden_in_messages(api: Any) -> None:
    request = {"op": "prepare", "variables": None, "setups": [], "secrets": {"KEY": "hunter2"}, "workdir": False}
    assert api.reply({**request, "protocol": protocol.PROTOCOL})["ok"]
    reply = api.reply({"op": "hunter2", "protocol": protocol.PROTOCOL})
    assert api._filter.clean(reply)["message"] == "unknown request `<hidden>`"


def test_the_types_load_where_nothing_is_installed() -> None:
    package = Path(protocol.__file__).parent
    asked = (
        f"import sys, json; sys.path[:0] = [{str(package.parent)!r}]; from runtime import protocol, protocol_files; "
        "print(json.dumps([protocol.PROTOCOL, 'typing_extensions' in sys.modules]))"
    )
    found = subprocess.run([sys.executable, "-EsS", "-c", asked], capture_output=True, text=True, check=True)
    assert json.loads(found.stdout) == [protocol.PROTOCOL, False]
