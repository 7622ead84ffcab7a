"""SkyPilot's `~/.sky/ssh_node_pools.yaml` (sky/ssh_node_pools/utils.py, prepare_hosts_info)."""

from launcher.config.importers.documents import Section, compose, section
from launcher.config.importers.found import Host
from launcher.config.importers.roster import Roster, short
from launcher.config.yaml.nodes import Node, Scalar


def read(text: str, roster: Roster) -> None:
    """Add the hosts of all pools to a roster; where there are several, `pool` is a level above the racks."""
    pools: list[tuple[str, Section]] = []
    for root in compose(text, roster.out):
        if found := section(root, "the file", roster.out):
            pools += [(key.text, one) for key, value in found.pairs() if (one := section(value, key.text, roster.out))]
    if len(pools) > 1:
        roster.levels = ("pool",)
    for name, pool in pools:
        _pool(name, pool, {"pool": name} if len(pools) > 1 else {}, roster)


def _pool(name: str, pool: Section, places: dict[str, str], roster: Roster) -> None:
    if pool.node("password") is not None:
        _say_password(pool, f"pool `{short(name)}`", roster)
    shared = Host(name="", user=pool.text("user"), identity_file=pool.text("identity_file"), places=places)
    hosts = pool.items("hosts")
    if not hosts:
        roster.wrong(pool.line, f"pool `{short(name)}` has no hosts", "list them under `hosts`")
    for item in hosts:
        _host(item, name, shared, roster)
    for key in pool.rest():
        roster.remark(key.mark.line, f"`{short(key.text)}` of pool `{short(name)}` is not known here, and is left out")


def _host(item: Node, pool: str, shared: Host, roster: Roster) -> None:
    line = item.mark.line
    if isinstance(item, Scalar):
        roster.add(_made(item.text, line, shared, shared.user, shared.identity_file))
        return
    one = section(item, "hosts", roster.out)
    if one is None:
        return
    address = one.text("ip")
    if one.node("password") is not None:
        _say_password(one, f"`{short(address or '?')}`", roster)
    user, key_file = one.text("user") or shared.user, one.text("identity_file") or shared.identity_file
    if address is None:
        roster.remark(line, f"a host of pool `{short(pool)}` has no `ip`: it is left out, as SkyPilot does")
    else:
        roster.add(_made(address, line, shared, user, key_file))
    for key in one.rest():
        roster.remark(key.mark.line, f"`{short(key.text)}` of a host is not known here, and is left out")


def _say_password(one: Section, whose: str, roster: Roster) -> None:
    what = f"`password` of {whose} is for sudo, and is not taken over"
    roster.remark(one.line_of("password"), what, "`sudo -n` is all that is ever used")


def _made(name: str, line: int, shared: Host, user: str | None, key_file: str | None) -> Host:
    return Host(name=name, line=line, user=user, identity_file=key_file, places=shared.places)
