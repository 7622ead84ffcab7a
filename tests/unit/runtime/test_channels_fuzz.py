"""Whatever bytes come to the programs on a node: sockets of agents, the stdin of a relay, and sockets of strangers."""

import contextlib
import importlib
import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.transport.agent import relay as one_request
from tests.effort import drawn
from tests.unit.runtime.folders import open_to_others

rpc = importlib.import_module("launcher.runtime.rpc")
relay = importlib.import_module("launcher.runtime.relay")

FUZZ = drawn(60)
RELAY = Path(relay.__file__)


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The socket of a server that says what it was asked."""
    path = tmp_path_factory.mktemp("agent") / "agent.sock"
    rpc.serve(path, lambda request: {"ok": True, "asked": request["op"]})
    return path


def said(path: Path, data: bytes) -> bytes:
    """What a server says to these bytes."""
    with socket.socket(socket.AF_UNIX) as link:
        link.settimeout(10)
        link.connect(str(path))
        with contextlib.suppress(OSError):
            link.sendall(data)
            link.shutdown(socket.SHUT_WR)
        answer = b""
        with contextlib.suppress(ConnectionError):
            while part := link.recv(1 << 16):
                answer += part
        return answer


odd_json = st.one_of(
    st.binary(max_size=60),
    st.sampled_from([b"[" * 100_000, b"[]", b"7", b"null", b'"op"', b'{"op": []}', b'{"op": NaN}', b"{}", b"\xff"]),
)


@FUZZ
@given(odd_json)
def test_an_agent_answers_the_next_request_whatever_came_before(agent: Path, data: bytes) -> None:
    said(agent, data)
    assert rpc.ask(agent, {"op": "hello"}, timeout=10) == {"ok": True, "asked": "hello"}


def test_nothing_is_said_to_the_socket_of_another_user(agent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rpc.os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match=f"is a socket of user {os.getuid()}"):
        rpc.ask(agent, {"op": "prepare", "secrets": "precious"}, timeout=5)


_NOBODY = "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
_TRAP = """
import _socket, os, sys
server = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
server.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o777)
%s
server.listen(5)
os.write(1, b"ready")
server.setblocking(True)
link = _socket.socket(fileno=server._accept()[0])
os.write(1, b"<" + link.recv(10000) + b">")
""".replace("%s", _NOBODY.strip().replace("; ", "\n"))


@pytest.fixture
def trap(tmp_path: Path) -> Iterator[tuple[Path, "subprocess.Popen[bytes]"]]:
    """A socket in place of an agent's, on which another user listens and writes down what is sent."""
    if os.geteuid() != 0:
        pytest.skip("only root can be another user")
    path = tmp_path / "agent.sock"
    process = subprocess.Popen([sys.executable, "-c", _TRAP, str(path)], stdout=subprocess.PIPE)
    assert process.stdout
    assert os.read(process.stdout.fileno(), 5) == b"ready"
    yield path, process
    process.kill()
    process.wait()


def heard(process: "subprocess.Popen[bytes]") -> bytes:
    """What the trap was sent."""
    assert process.stdout
    process.wait(10)
    return process.stdout.read()


REQUEST = {"op": "prepare", "secrets": {"KEY": "precious"}}


def test_a_single_request_is_not_sent_to_another_users_socket(trap: tuple[Path, "subprocess.Popen[bytes]"]) -> None:
    path, process = trap
    argv = [sys.executable, "-EsS", "-c", one_request.ONE, str(path), str(path.parent / "none"), str(path.parent), "5"]
    ended = subprocess.run(argv, input=json.dumps(REQUEST).encode(), capture_output=True, timeout=20)
    assert json.loads(ended.stdout) == {"ok": True, "absent": True}
    assert heard(process) == b"<>"


def test_the_relay_sends_nothing_to_another_users_socket(trap: tuple[Path, "subprocess.Popen[bytes]"]) -> None:
    path, process = trap
    question = {
        "key": ["r", "n1"],
        "socket": str(path),
        "package": str(path.parent / "none"),
        "root": str(path.parent),
        "question": REQUEST,
        "limit": 5,
    }
    argv = [sys.executable, "-EsS", str(RELAY)]
    ended = subprocess.run(argv, input=json.dumps(question).encode() + b"\n", capture_output=True, timeout=20)
    assert json.loads(ended.stdout)["answer"] == {"ok": True, "absent": True}
    assert heard(process) == b"<>"


def test_our_own_programs_send_nothing_to_another_users_socket(trap: tuple[Path, "subprocess.Popen[bytes]"]) -> None:
    path, process = trap
    with pytest.raises(PermissionError, match="is a socket of user 65534"):
        rpc.ask(path, REQUEST, timeout=5)
    assert heard(process) == b"<>"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_is_not_answered(agent: Path) -> None:
    open_to_others(agent.parent)
    agent.chmod(0o777)
    program = (
        "import _socket, os, sys\n"
        "link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)\n" + _NOBODY + "link.connect(sys.argv[1])\n"
        'try:\n    link.sendall(b\'{"op": "hello"}\'); link.shutdown(1)\n    os.write(1, link.recv(100))\n'
        "except OSError: pass\n"
    )
    argv = [sys.executable, "-c", program, str(agent)]
    ended = subprocess.run(argv, capture_output=True, timeout=20)
    assert (ended.stdout, ended.stderr) == (b"", b"")
    assert rpc.ask(agent, {"op": "hello"}, timeout=10)["ok"]


class FalseAgent:
    """A socket that answers each request with the next of some bytes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.answer = b""
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(str(path))
        self._server.listen(5)

    def serve(self) -> None:
        link, _ = self._server.accept()
        with link, contextlib.suppress(OSError):
            while link.recv(1 << 16):
                pass
            link.sendall(self.answer)


@pytest.fixture(scope="module")
def talk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[FalseAgent, "subprocess.Popen[bytes]"]]:
    """A relay that runs for all cases, and the agent that it asks."""
    agent = FalseAgent(tmp_path_factory.mktemp("false") / "agent.sock")
    argv = [sys.executable, "-EsS", str(RELAY)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    yield agent, process
    process.kill()
    process.wait()


@FUZZ
@given(odd_json)
def test_the_relay_passes_on_any_answer_and_goes_on(talk: Any, data: bytes) -> None:
    agent, process = talk
    agent.answer = data
    question = {
        "key": ["r", "n1"],
        "socket": str(agent.path),
        "package": "none",
        "root": "none",
        "question": {"op": "status"},
        "limit": 10,
    }
    process.stdin.write(json.dumps(question).encode() + b"\n")
    agent.serve()
    line, poll = b"", select.poll()
    poll.register(process.stdout, select.POLLIN)
    while not line.endswith(b"\n"):
        assert poll.poll(10_000), "the relay hangs"
        part = os.read(process.stdout.fileno(), 1 << 16)
        assert part, "the relay has ended"
        line += part
    answer = json.loads(line)
    assert answer["key"] == ["r", "n1"]
    assert ("answer" in answer) != ("message" in answer)
