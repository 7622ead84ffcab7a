"""The location of a node by its GPU drivers: chassis, tray, NVLink domain."""

import re

from launcher.core.discovery.location import NodeLocation
from launcher.probe.check_gpu import domain_of
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

# The serial number becomes the name of a rack, so it must be a valid label for Ray.
_SERIAL = re.compile(r"[a-zA-Z0-9]([a-zA-Z0-9_.-]{0,60}[a-zA-Z0-9])?")
_NO_SERIAL = re.compile(r"0+|N/?A|none|unknown", re.IGNORECASE)
_KIND = re.compile(r"(?:NVIDIA )?([A-Z]+[0-9]+[A-Za-z]*)")


def read_location(facts: Facts | Unknown) -> NodeLocation | Unknown:
    """Return the location of a node.

    Unknown if its drivers did not answer or show no GPU.
    """
    if isinstance(facts, Unknown):
        return facts
    if isinstance(facts.driver, Unknown):
        return facts.driver
    if not facts.driver.gpus:
        return Unknown(why=facts.driver.fault or "no GPUs found")
    present = [gpu for gpu in facts.driver.gpus if not gpu.lost]
    serials = {gpu.chassis for gpu in present}
    trays = {gpu.tray for gpu in present}
    kinds = {found[1] if (found := _KIND.fullmatch(gpu.name or "")) else None for gpu in present}
    serial = next(iter(serials)) if len(serials) == 1 else None
    return NodeLocation(
        chassis=serial if serial and _SERIAL.fullmatch(serial) and not _NO_SERIAL.fullmatch(serial) else None,
        tray=next(iter(trays)) if len(trays) == 1 else None,
        domain=domain_of(facts),
        gpus=len(present),
        machine=next((gpu.uuid for gpu in present if gpu.uuid), None),
        accelerator=next(iter(kinds)) if len(kinds) == 1 else None,
    )
