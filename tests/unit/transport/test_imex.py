"""IMEX as the facts of a node show it."""

from dataclasses import replace

import pytest

from launcher.probe.imex import ImexDomain, Peer
from launcher.probe.node_facts import Facts
from launcher.probe.nvidia.nvidia_smi import GpuProcess
from launcher.probe.results import Unknown
from launcher.setup.imex import ImexDaemon
from launcher.transport.imex import seen
from tests.facts import DRIVER, FACTS, MISSING, peers

NO_UNIT = Unknown(why="`systemctl` says nothing")
HUNG = Unknown(why="`nvidia-imex-ctl -N` did not answer within 10 s", hung=True)
BUSY = replace(DRIVER, gpus=tuple(replace(gpu, processes=(GpuProcess(pid=7, name="python"),)) for gpu in DRIVER.gpus))
THREE = (("10.0.7.1",), ("10.0.7.2",), ("10.0.7.3",))


def versions(*found: str) -> ImexDomain:
    base = peers("C C C", "C C C", "C C C")
    own: tuple[Peer, ...] = tuple(replace(peer, version=at) for peer, at in zip(base.peers, found, strict=True))
    return replace(base, peers=own)


TABLE: dict[str, tuple[Facts, dict[str, object]]] = {
    "well": (FACTS, {"installed": True, "active": True, "ready": True, "peers": THREE, "cut": {}, "channel": True}),
    "no service": (replace(FACTS, imex_active=None, imex_ready=MISSING), {"installed": False, "active": False}),
    "no service, but a daemon": (replace(FACTS, imex_active=None), {"installed": True, "active": True}),
    "stopped": (replace(FACTS, imex_active=False, imex_ready=NO_UNIT), {"installed": True, "active": False}),
    "cannot tell": (replace(FACTS, imex_active=NO_UNIT, imex_ready=NO_UNIT), {"active": None, "why": NO_UNIT.why}),
    "waits": (replace(FACTS, imex_ready=False), {"active": True, "ready": False}),
    "-N hangs": (replace(FACTS, imex_domain=HUNG), {"peers": None, "why": HUNG.why, "listed": FACTS.imex_files.nodes}),
    "another list": (
        replace(FACTS, imex_domain=peers("C !M! C", "C C C", "C C C")),
        {"cut": {1: "its node list is not the same"}},
    ),
    "another version": (
        replace(FACTS, imex_domain=versions("580.1", "580.1", "580.2")),
        {"cut": {2: "IMEX or the driver is of another version"}},
    ),
    "old tools tell no version": (replace(FACTS, imex_domain=peers("C C C", "C C C", "C C C")), {"cut": {}}),
    "sudo": (replace(FACTS, sudo=NO_UNIT), {"sudo": None}),
    "nobody there": (FACTS, {"used_by": ()}),
    "somebody there": (replace(FACTS, driver=BUSY), {"used_by": ("`python` (7)",)}),
    "driver hangs": (replace(FACTS, driver=HUNG), {"used_by": None}),
    "no channel": (
        replace(FACTS, imex_files=replace(FACTS.imex_files, channel=False, usable=False)),
        {"no_channel": True, "channel": False},
    ),
}


@pytest.mark.parametrize(("facts", "wanted"), TABLE.values(), ids=TABLE)
def test_a_daemon_is_seen_as_it_is(facts: Facts, wanted: dict[str, object]) -> None:
    found: ImexDaemon = seen(facts)
    assert {name: getattr(found, name) for name in wanted} == wanted
