"""Weeks of random faults: every decision keeps its rules; in `make soak` for a million hours of nodes."""

import random

from tests.effort import SOAK
from tests.soak.fuzz import soak


def test_hours_of_random_faults_break_no_rule() -> None:
    seed = random.randint(0, 1 << 32) if SOAK else 1
    hours = 1_000_000.0 if SOAK else 7_000.0
    totals = soak(hours, seed)
    print(f"seed {seed}: {totals}")
    assert totals.faults > hours / 200
    assert totals.attempts > hours / 2000
