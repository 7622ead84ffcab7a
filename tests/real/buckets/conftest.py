"""The endpoint, and nodes that are cleaned up."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.core.model.buckets import BucketMount
from tests.real.buckets.node import AgentNode
from tests.real.buckets.store import Store

NewNode = Callable[..., AgentNode]


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One endpoint for all tests; each has a bucket of its own."""
    folder = tmp_path_factory.mktemp("store") / "buckets"
    folder.mkdir()
    made = Store(folder)
    yield made
    made.close()


@pytest.fixture(scope="session")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of all runs: rclone is sent there once."""
    return tmp_path_factory.mktemp("machine")


@pytest.fixture
def new_node(machine: Path, store: Store, request: pytest.FixtureRequest) -> Iterator[NewNode]:
    """Make a node with these buckets, whose agent runs."""
    made: list[AgentNode] = []

    def make(mounts: dict[str, BucketMount], place: str = "n1") -> AgentNode:
        node = AgentNode(machine, store, mounts, run=f"run-{request.node.name[:40]}", place=place)
        made.append(node)
        begun = node.begin()
        assert begun["ok"], begun
        return node

    yield make
    for node in made:
        node.clean()
