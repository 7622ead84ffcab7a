"""Looks over SSH at hosts that fall silent and come back, and what a host shows of its health."""

import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from launcher.config.inventory.read import read_inventory
from launcher.core.model.actions import Acquire
from launcher.core.model.nodeset import NodeName
from launcher.core.model.observation import Health, Seen, Sighting, Symptom, Unseen
from launcher.core.model.run import Run
from tests.contracts.ports_suite import REASON, Program
from tests.real import local
from tests.real.harness import RealHarness
from tests.rig import Rig

QUICK_S = 2.0
"""A look waits a second at most; the rest is for a machine on which others are at work."""


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    """One rack of three hosts with drivers that say what a test wants."""
    with Rig(1, 3, nvidia=True, python=sys.executable, name="looks") as made:
        yield made


@pytest.fixture
def harness(rig: Rig, home: Path, user: Path) -> Iterator[RealHarness]:
    """Three hosts whose agents live; nothing else of the run is there."""
    home.mkdir()
    (home / "rack.yaml").write_text(rig.inventory())
    made = RealHarness(home, read_inventory(home / "rack.yaml"))
    yield made
    made.close()


def looked(harness: RealHarness, run: Run, holds: Callable[[Sighting], bool], limit: float) -> tuple[float, float]:
    """Look until what is seen holds; return how long that took, and the longest look of them (s)."""
    begun, longest = time.monotonic(), 0.0
    while True:
        before = time.monotonic()
        seen = harness.nodes.look(run)
        longest = max(longest, time.monotonic() - before)
        if holds(seen):
            return time.monotonic() - begun, longest
        assert time.monotonic() - begun < limit, seen
        time.sleep(0.2)


def test_a_silent_host_holds_up_no_look_and_is_seen_again_when_it_is_back(rig: Rig, harness: RealHarness) -> None:
    run = harness.place(Program.LASTS)
    first, others = run.placement.nodes[0], run.placement.nodes[1:]
    for node in run.placement.nodes:
        local.ok(harness.nodes.perform(run, Acquire(reason=REASON, node=node)))

    def sees(seen: Sighting, *nodes: NodeName) -> bool:
        return all(isinstance(seen.nodes[node], Seen) for node in nodes)

    looked(harness, run, lambda seen: sees(seen, *run.placement.nodes), 40)
    rig[first].drop(True)
    try:
        _, longest = looked(
            harness, run, lambda seen: isinstance(seen.nodes[first], Unseen) and sees(seen, *others), 15
        )
        assert longest < QUICK_S
        _, longest = looked(harness, run, lambda seen: first in seen.reached and not seen.reached[first].answers, 20)
        assert longest < QUICK_S
        for _ in range(10):
            assert sees(harness.nodes.look(run), *others)
            time.sleep(0.5)
    finally:
        rig[first].drop(False)
    took, longest = looked(harness, run, lambda seen: sees(seen, first) and not seen.reached, 20)
    assert longest < QUICK_S
    assert took < 6.0


def test_a_host_shows_what_has_happened_since_the_run_is_there(rig: Rig, harness: RealHarness) -> None:
    run = harness.place(Program.LASTS)
    node = run.placement.nodes[1]
    host = rig[node]
    fatal = "NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"
    host.set_hardware(lambda tray: tray.with_xid(149, fatal, at=time.monotonic()))
    local.ok(harness.nodes.perform(run, Acquire(reason=REASON, node=node)))
    before = harness.nodes.inspect(run, node)
    assert isinstance(before, Health)
    assert before.signs == (), "it was there before the run"
    host.set_hardware(lambda tray: tray.with_xid(149, fatal, at=time.monotonic()))
    host.set_hardware(lambda tray: tray.with_gpu(2, recovery_action="GPU Reset"))
    after = harness.nodes.inspect(run, node)
    assert isinstance(after, Health)
    assert after.worst is Symptom.FATAL_LINK
    assert "the driver requests `GPU Reset`" in after.signs[0].message
    host.set_hardware(smi_hang=-1.0)
    hanging = harness.nodes.inspect(run, node)
    assert isinstance(hanging, Health)
    assert hanging.hung == ("nvidia-smi",)
