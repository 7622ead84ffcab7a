"""Names of PCI devices, which the kernel, the driver and its tools each write in their own way."""

import re

_ADDRESS = re.compile(r"(?:([0-9a-fA-F]{4,8}):)?([0-9a-fA-F]{2}):([0-9a-fA-F]{2})(?:\.[0-7])?")


def canonical(address: str) -> str | None:
    """Return `0018:01:00` for `00000018:01:00.0`, `0018:01:00` and alike; None for what is no PCI address.

    The domain counts: on NVL72 it is what tells the GPUs of a tray from one another. Left out, it is 0.
    """
    found = _ADDRESS.fullmatch(address.strip())
    if found is None:
        return None
    domain, bus, device = (int(part or "0", 16) for part in found.groups())
    return f"{domain:04x}:{bus:02x}:{device:02x}"
