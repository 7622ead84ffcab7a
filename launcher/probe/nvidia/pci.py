"""PCI addresses, which kernel, driver and tools write differently."""

import re

_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?")


def canonical(address: str) -> str | None:
    """Return `0018:01:00` for `00000018:01:00.0`, `0018:01:00` and the like.

    None for any other text. The PCI domain is kept, since only the domain differs between the GPUs of an NVL72 tray. If
    missing, it is 0.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"
