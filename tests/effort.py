"""How much the tests try that draw their cases: some in `make check`, the same every time; many anew in `make soak`."""

import os
from collections.abc import Sequence

from hypothesis import HealthCheck, settings

SOAK = os.environ.get("NVLAUNCH_SOAK") == "1"
_MORE = 50  # times as many cases
_PART = 3  # `make check` tries one case in three of those that a property names,
_LEAST = 4  # but so many


def drawn(examples: int) -> settings:
    """Return how a property is tried: in `make check` on a third of `examples`, in a soak on 50 times `examples`."""
    return settings(
        max_examples=examples * _MORE if SOAK else max(min(examples, _LEAST), examples // _PART),
        derandomize=not SOAK,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


def moments(end: int, step: int) -> Sequence[int]:
    """Return at which of `end` moments something is killed: every `step`th, in a soak at each."""
    return range(0, end, 1 if SOAK else step)
