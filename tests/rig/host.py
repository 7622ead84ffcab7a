"""One host of a rig: power, network and what its drivers say, on top of its faults and its inside."""

import io
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.rig.answers import render
from tests.rig.faults import Faults
from tests.rig.hardware import Hardware, hardware
from tests.rig.identity import birth
from tests.rig.inside import Ground
from tests.rig.layer import fingerprint, make_own
from tests.rig.plan import Slot, link_up_lines, wire


class Host(Faults):
    """A host; it is off until `boot`."""

    def __init__(self, ground: Ground, slot: Slot, gpus: int, accelerator: str) -> None:
        super().__init__(ground, slot)
        self._boots = 0
        self.host_key = ""
        self.hardware: Hardware = hardware(slot.name, slot.rack, slot.tray, gpus, accelerator)

    @property
    def fingerprint(self) -> str:
        """The host key as an inventory pins it: `SHA256:...`."""
        return fingerprint(self.host_key)

    @property
    def cable(self) -> str:
        """The router's interface to the host since its last boot."""
        return wire(self._slot, self._boots)

    # power

    def prepare(self) -> None:
        """Write the first contents of an empty disk, with a new host key."""
        self.host_key = make_own(self._ground.disk(self.name), self._slot, render(self.hardware))

    def next_boot(self) -> int:
        """Return the number of the boot that comes now."""
        self._boots += 1
        return self._boots

    def booted(self, pid: int) -> None:
        """Take note of PID 1 of a boot that succeeded."""
        self._pid, self._born = pid, birth(pid)

    def boot(self, reimaged: bool = False) -> None:
        """Power the host on again: with the disk it had, or `reimaged` with an empty one and a new host key."""
        if reimaged:
            self._ground.ask("wipe", host=self.name)
            self.prepare()
            self._ground.note_keys()
        self.booted(self._ground.ask("boot", hosts={self.name: self.next_boot()})["pids"][self.name])
        self._ground.note_power()

    def power_cut(self) -> None:
        """Take the power away: first nothing is heard of it any more, then all its processes are gone."""
        if self.on:
            self._ip(f"link del {self.cable}")
        self._ground.ask("halt", host=self.name)
        self._pid = self._born = None
        self._ground.note_power()

    # network

    def link(self, up: bool) -> None:
        """Plug the cable in or out: out is silence seen from elsewhere, and no carrier seen from the host."""
        self._ip(*(link_up_lines(self._slot, self._boots) if up else [f"link set {self.cable} down"]))

    def drop(self, on: bool) -> None:
        """Drop all packets from and to the host while its link stays up, or stop doing so."""
        verb = "add" if on else "del"
        self._ip(*(f"rule {verb} pref 10 {way} {self.address} blackhole" for way in ("from", "to")))

    def _ip(self, *lines: str) -> None:
        self._ground.ask("ip", lines=list(lines))

    # what its drivers say

    def set_hardware(self, change: Callable[[Hardware], Hardware] | None = None, **changes: Any) -> None:
        """Change what the stand-ins answer: `set_hardware(health="Unhealthy")`, or by a function of the state."""
        state = change(self.hardware) if change else self.hardware
        self.hardware = replace(state, **changes)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            for path, text in render(self.hardware):
                entry = tarfile.TarInfo(path.lstrip("/"))
                entry.size, entry.mode, entry.mtime = len(text.encode()), 0o666, int(time.time())
                tar.addfile(entry, io.BytesIO(text.encode()))
        self.run(["tar", "-x", "-C", "/"], stdin=packed.getvalue())

    def unit_calls(self, unit: str, verb: str) -> int:
        """Return how often `systemctl VERB UNIT` was called."""
        said = self.run(["cat", f"/var/lib/rig/units/{unit}/{verb}"], check=False).stdout
        return int(said or 0)
