"""Addresses of machines as people write them, and the one form of each."""

import ipaddress
import re
from functools import lru_cache

_BRACKETS = re.compile(r"\[(.*)\](?::[0-9]{1,5})?")


def canonical(address: str) -> str:
    """Return the one form of an address or host name: equal ones lead to one machine, whatever their spelling.

    Case, a dot at the end, zeroes of IPv6, an IPv4 address inside of IPv6, brackets and the port after them are no
    difference.
    """
    found = _BRACKETS.fullmatch(address)
    plain = (found[1] if found else address).rstrip(".").casefold()
    ip = read_ip(plain)
    if ip is None:
        return plain
    mapped = ip.ipv4_mapped if isinstance(ip, ipaddress.IPv6Address) else None
    return str(mapped or ip)


def is_loopback(address: str) -> bool:
    """Whether an address leads every machine to itself."""
    ip = read_ip(canonical(address))
    return ip.is_loopback if ip else canonical(address) in ("localhost", "ip6-localhost", "ip6-loopback")


def endpoint(address: str, port: int) -> str:
    """Return `HOST:PORT` as Ray reads it: an IPv6 address is in brackets there, and nowhere else."""
    ip = read_ip(address)
    return f"[{address}]:{port}" if ip and ip.version == 6 else f"{address}:{port}"


@lru_cache(maxsize=1 << 16)  # each address of an inventory is read for several facts
def read_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return a text as an IP address; None for a name."""
    if ":" not in text and not text.replace(".", "").isdigit():
        return None  # most are names, and it takes long to find out why one is no address
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None
