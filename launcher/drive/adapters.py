"""Which adapter serves an inventory: imaginary nodes, or real ones.

Each adapter is imported where it is chosen, so that a run waits for no import that it does not need.
"""

from pathlib import Path

from launcher.core.model.inventory import Inventory
from launcher.core.model.run import Run
from launcher.ports import Checker, Clock, Nodes, Prober
from launcher.store.store import Store


def open_nodes(home: Path, fleet: Inventory) -> Nodes:
    """Return the adapter for the nodes of an inventory."""
    if fleet.capabilities.imaginary:
        from launcher.sim.nodes import SimNodes

        return SimNodes(Store(home).worlds)
    from launcher.transport.open import open_nodes as open_real

    return open_real(home, fleet)


def open_prober(home: Path, fleet: Inventory) -> Prober:
    """Return the adapter that asks the nodes of an inventory for facts."""
    if fleet.capabilities.imaginary:
        from launcher.core.model.simulation import SimSettings
        from launcher.sim.prober import SimProber

        return SimProber(fleet.sim or SimSettings())
    from launcher.transport.open import open_prober as open_real

    return open_real(home, fleet)


def open_checker(home: Path, fleet: Inventory) -> Checker:
    """Return the adapter that runs checks on the nodes of an inventory."""
    if fleet.capabilities.imaginary:
        from launcher.core.model.simulation import SimSettings
        from launcher.sim.checker import SimChecker

        return SimChecker(fleet.sim or SimSettings())
    from launcher.transport.open import open_checker as open_real

    return open_real(home, fleet)


def open_clock(store: Store, run: Run) -> Clock:
    """Return the clock of a run: virtual time on an imaginary fleet."""
    if run.fleet.capabilities.imaginary:
        from launcher.sim.clock import SimClock

        return SimClock(store.worlds, run)
    from launcher.transport.clock import SystemClock

    return SystemClock()
