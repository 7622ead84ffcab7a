"""How much the tests try that draw their cases: some in `make check`, the same every time; many anew in `make soak`."""

import os
from collections.abc import Sequence

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("NVLAUNCH_SOAK") == "1"
_MORE = 50  # times as many cases


def drawn(examples: int) -> settings:
    """Answer how a property is tried: on `examples` cases, in a soak on 50 times as many."""
    return settings(
        max_examples=examples * _MORE if SOAK else examples,
        derandomize=not SOAK,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def moments(end: int, step: int) -> Sequence[int]:
    """Answer at which of `end` moments something is killed: every `step`th, in a soak at each."""
    return range(0, end, 1 if SOAK else step)
