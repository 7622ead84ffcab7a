"""Whether a node shares GPU memory with the other trays of its domain."""

from collections import Counter
from collections.abc import Mapping

from launcher.core.model.inventory import Node
from launcher.probe.answer import Unknown
from launcher.probe.collect import Facts
from launcher.probe.imex import ImexDomain, ImexFiles, Link, Peer
from launcher.probe.report import Fact, Finding, bad, cannot_tell, good

_HINT_CHANNEL = (
    "load the driver with `NVreg_CreateImexChannel0=1`, or `sudo mknod -m 666` it with the number of "
    "`nvidia-caps-imex-channels` in /proc/devices and 0"
)


def imex(facts: Facts, node: Node) -> Finding:
    """Judge whether GPU memory can be shared with other trays. Only a fault of the node's own keeps a gang away."""
    if facts.imex_active is not True and isinstance(facts.imex_ready, Unknown) and facts.imex_ready.missing:
        return bad(Fact.IMEX, "not installed: GPU memory cannot be shared beyond the tray", stops=False)
    if facts.imex_active is False:
        return bad(Fact.IMEX, "the service is not active: `sudo systemctl start nvidia-imex`", stops=False)
    files = facts.imex_files
    if isinstance(files, ImexFiles) and not files.usable:
        message = f"cannot be opened by `{_user(facts)}`" if files.channel else f"is missing: {_HINT_CHANNEL}"
        return bad(Fact.IMEX, f"channel0 {message}", stops=False)
    if isinstance(facts.imex_ready, Unknown):
        return cannot_tell(Fact.IMEX, facts.imex_ready.why)
    if not facts.imex_ready:
        return bad(Fact.IMEX, "the local daemon is not READY: `nvidia-imex-ctl -q`", stops=False)
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
        return bad(Fact.IMEX, "this node is not in the node list that the daemon was started with", stops=False)
    if not own.links:
        return cannot_tell(Fact.IMEX, "the daemon does not say whom it is connected to")
    broken = {index: link for index, link in own.links.items() if link is not Link.CONNECTED}
    if not broken:
        return good(Fact.IMEX, f"READY, connected to all {len(own.links)} of the domain ({found.state.value})")
    return _broken(own, broken, {peer.index: peer.names[0] for peer in found.peers})


def _broken(own: Peer, broken: Mapping[int, Link], names: Mapping[int, str]) -> Finding:
    link, count = Counter(broken.values()).most_common(1)[0]
    who = ", ".join(names.get(index, f"#{index}") for index in sorted(broken)[:4]) + (" ..." if len(broken) > 4 else "")
    why = {
        Link.MAP: "the node list differs (nodes_config.cfg must be the same bytes everywhere, and is read at start)",
        Link.VERSION: "IMEX or the driver is of another version",
    }.get(link, f"the link is {link.name.lower()}")
    shown = tuple(f"{names.get(index, index)}: {link.value}" for index, link in sorted(broken.items())[:20])
    # Who stands alone against the rest is the one that differs.
    alone = link in (Link.MAP, Link.VERSION) and 2 * count >= len(own.links)
    return bad(Fact.IMEX, f"{len(broken)} of {len(own.links)} peers are cut off ({who}): {why}", *shown, stops=alone)
