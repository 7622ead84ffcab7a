"""The head of tests of heartbeats, and its time."""

from collections.abc import Iterator

import pytest

from tests.unit.runtime.test_heartbeat import Head, Time


@pytest.fixture
def clock() -> Time:
    return Time()


@pytest.fixture
def head(clock: Time) -> Iterator[Head]:
    made = Head(clock)
    yield made
    made.close()
