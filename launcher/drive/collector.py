"""Python's search for garbage, less often than by default."""

import gc

SELDOM = (100_000, 50, 100)
"""After how many new objects the youngest are searched, and after how many such searches older ones."""


def collect_seldom() -> None:
    """Search for cycles of garbage seldom.

    A run of thousands of nodes is a million objects, and few are ever in a cycle: with Python's defaults a third of a
    controller's CPU went into looking through them.
    """
    gc.set_threshold(*SELDOM)
