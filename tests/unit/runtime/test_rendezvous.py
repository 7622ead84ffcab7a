"""The port on which the ranks of a group meet: free in both families, and the same when it is asked for again."""

import importlib
import os
import socket
from pathlib import Path
from typing import Any

import pytest

rendezvous = importlib.import_module("launcher.runtime.rendezvous")


@pytest.fixture
def ports() -> list[int]:
    """Three ports that nobody uses."""
    probes = [socket.create_server(("127.0.0.1", 0)) for _ in range(3)]
    found = [int(probe.getsockname()[1]) for probe in probes]
    for probe in probes:
        probe.close()
    return found


def asked(folder: Path, attempt: int, ports: list[int], group: str = "main") -> dict[str, Any]:
    return dict(rendezvous.choose(folder, {"group": group, "attempt": attempt, "ports": ports}))


def test_the_first_free_port_is_chosen_and_stays_that_of_its_attempt(tmp_path: Path, ports: list[int]) -> None:
    assert asked(tmp_path, 1, ports)["port"] == ports[0]
    with socket.create_server(("127.0.0.1", ports[0])):  # rank 0 listens there by now
        assert asked(tmp_path, 1, ports)["port"] == ports[0]
        assert asked(tmp_path, 1, ports, group="other")["port"] == ports[1]
        assert asked(tmp_path, 2, ports)["port"] == ports[1]


@pytest.mark.parametrize(("family", "address"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::")], ids=str)
def test_a_listener_of_one_family_alone_is_in_the_way(
    tmp_path: Path, ports: list[int], family: socket.AddressFamily, address: str
) -> None:
    with socket.socket(family) as taken:
        if family == socket.AF_INET6:
            taken.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        taken.bind((address, ports[0]))
        taken.listen(1)
        assert not rendezvous.is_free(ports[0])
        assert asked(tmp_path, 1, ports)["port"] == ports[1]


def test_ports_of_outgoing_connections_come_last(
    tmp_path: Path, ports: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(f"{ports[0]}\t{ports[0]}\n")
    monkeypatch.setattr(rendezvous, "RANGE", tmp_path / "range")
    assert asked(tmp_path, 1, ports)["port"] == ports[1]


def test_where_none_is_free_it_says_who_has_them(tmp_path: Path, ports: list[int]) -> None:
    with socket.create_server(("127.0.0.1", ports[0])):
        reply = asked(tmp_path, 1, ports[:1])
    assert "port" not in reply
    assert f"{ports[0]} by pid {os.getpid()} (" in reply["message"]
