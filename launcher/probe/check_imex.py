"""Check whether a node can share GPU memory with other trays by IMEX."""

from collections import Counter
from collections.abc import Mapping

from launcher.core.model.inventory import Node
from launcher.probe.findings import Fact, Finding, bad, cannot_tell, good
from launcher.probe.imex import ImexDomain, ImexFiles, Peer, PeerLink
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown

_HINT_CHANNEL = (
    "load the driver with `NVreg_CreateImexChannel0=1`, or create it with `sudo mknod -m 666`, the major number of "
    "`nvidia-caps-imex-channels` in /proc/devices, and minor number 0"
)


def imex(facts: Facts, node: Node) -> Finding:
    """Check IMEX. Only a fault of the node itself prevents a start."""
    if facts.imex_active is not True and isinstance(facts.imex_ready, Unknown) and facts.imex_ready.missing:
        return bad(Fact.IMEX, "not installed: GPU memory cannot be shared between trays", stops=False)
    if facts.imex_active is False:
        return bad(Fact.IMEX, "service not active; start it with `sudo systemctl start nvidia-imex`", stops=False)
    files = facts.imex_files
    if isinstance(files, ImexFiles) and not files.usable:
        message = f"cannot be opened by `{_user(facts)}`" if files.channel else f"is missing; {_HINT_CHANNEL}"
        return bad(Fact.IMEX, f"channel0 {message}", stops=False)
    if isinstance(facts.imex_ready, Unknown):
        return cannot_tell(Fact.IMEX, facts.imex_ready.why)
    if not facts.imex_ready:
        return bad(Fact.IMEX, "the local daemon is not READY; check it with `nvidia-imex-ctl -q`", stops=False)
    if isinstance(facts.imex_domain, Unknown):
        return cannot_tell(Fact.IMEX, f"the local daemon is READY, but {facts.imex_domain.why}")
    return _row(facts.imex_domain, _names(facts, node))


def _user(facts: Facts) -> str:
    return "this user" if isinstance(facts.host, Unknown) else facts.host.user


def _names(facts: Facts, node: Node) -> frozenset[str]:
    addresses = () if isinstance(facts.addresses, Unknown) else facts.addresses
    hostname = () if isinstance(facts.host, Unknown) else (facts.host.hostname,)
    return frozenset((node.access.address, node.name, *addresses, *hostname))


def _row(found: ImexDomain, names: frozenset[str]) -> Finding:
    own = found.own(names)
    if own is None:
        return bad(Fact.IMEX, "this node is not in the node list that the daemon read at start", stops=False)
    if not own.links:
        return cannot_tell(Fact.IMEX, "the daemon does not report its connections")
    broken = {index: link for index, link in own.links.items() if link is not PeerLink.CONNECTED}
    if not broken:
        return good(Fact.IMEX, f"READY, connected to all {len(own.links)} nodes of the domain ({found.state.value})")
    return _broken(own, broken, {peer.index: peer.names[0] for peer in found.peers})


def _broken(own: Peer, broken: Mapping[int, PeerLink], names: Mapping[int, str]) -> Finding:
    link, count = Counter(broken.values()).most_common(1)[0]
    who = ", ".join(names.get(index, f"#{index}") for index in sorted(broken)[:4]) + (" ..." if len(broken) > 4 else "")
    why = {
        PeerLink.MAP: "the node list differs; nodes_config.cfg must be identical on all nodes, and is read at start",
        PeerLink.VERSION: "the version of IMEX or of the driver differs",
    }.get(link, f"the link is {link.name.lower()}")
    shown = tuple(f"{names.get(index, index)}: {link.value}" for index, link in sorted(broken.items())[:20])
    # A node that differs from at least half of the others is the one at fault.
    alone = link in (PeerLink.MAP, PeerLink.VERSION) and 2 * count >= len(own.links)
    return bad(Fact.IMEX, f"{len(broken)} of {len(own.links)} peers not connected ({who}): {why}", *shown, stops=alone)
