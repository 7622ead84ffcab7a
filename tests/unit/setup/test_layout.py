"""Paths of a run on a node."""

from launcher.core.model.run import RunId
from launcher.setup import layout

LONGEST_SOCKET = 107
"""Bytes of the path of a Unix socket on Linux (unix(7))."""

RAYS = "session_2026-12-01_10-03-14_726123_4194304/sockets/plasma_store.1"
"""The longest socket that Ray makes in its folder, with the highest process id of Linux."""


def test_sockets_are_short_whatever_the_names_of_run_and_node() -> None:
    for place in ("n1", "n" * 62, layout.HEAD_PLACE):
        for made in (layout.remote(RunId("r" * 80), place), layout.local("/home/" + "h" * 90, RunId("r" * 80), place)):
            assert len(made.socket) <= LONGEST_SOCKET
            assert len(f"{made.ray}/{RAYS}") <= LONGEST_SOCKET
            assert len(f"{made.scratch}/supervisor.sock") <= LONGEST_SOCKET


def test_places_of_a_run_have_sockets_of_their_own() -> None:
    run = RunId("x1")
    assert len({layout.remote(run, place).scratch for place in ("n1", "N1", "n2", layout.HEAD_PLACE)}) == 4
