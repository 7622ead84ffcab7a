"""SkyPilot's `~/.sky/ssh_node_pools.yaml`.

See sky/ssh_node_pools/utils.py, prepare_hosts_info.
"""

from launcher.config.importers.collector import HostCollector, short
from launcher.config.importers.foreign_yaml import TrackedMapping, as_mapping, compose_yaml
from launcher.config.importers.imported import ImportedHost
from launcher.config.yaml.nodes import ScalarNode, YamlNode


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts of all pools to a collector.

    If there are several, `pool` is a level above the racks.
    """
    pools: list[tuple[str, TrackedMapping]] = []
    for root in compose_yaml(text, collector.out):
        if found := as_mapping(root, "the file", collector.out):
            pools += [
                (key.text, one) for key, value in found.pairs() if (one := as_mapping(value, key.text, collector.out))
            ]
    if len(pools) > 1:
        collector.levels = ("pool",)
    for name, pool in pools:
        _pool(name, pool, {"pool": name} if len(pools) > 1 else {}, collector)


def _pool(name: str, pool: TrackedMapping, places: dict[str, str], collector: HostCollector) -> None:
    if pool.node("password") is not None:
        _warn_of_password(pool, f"pool `{short(name)}`", collector)
    shared = ImportedHost(name="", user=pool.text("user"), identity_file=pool.text("identity_file"), places=places)
    hosts = pool.items("hosts")
    if not hosts:
        collector.mistake(pool.line, f"pool `{short(name)}` has no hosts", "list them under `hosts`")
    for item in hosts:
        _host(item, name, shared, collector)
    for key in pool.rest():
        collector.warn(key.mark.line, f"unknown key `{short(key.text)}` of pool `{short(name)}` ignored")


def _host(item: YamlNode, pool: str, shared: ImportedHost, collector: HostCollector) -> None:
    line = item.mark.line
    if isinstance(item, ScalarNode):
        collector.add(_made(item.text, line, shared, shared.user, shared.identity_file))
        return
    one = as_mapping(item, "hosts", collector.out)
    if one is None:
        return
    address = one.text("ip")
    if one.node("password") is not None:
        _warn_of_password(one, f"`{short(address or '?')}`", collector)
    user, key_file = one.text("user") or shared.user, one.text("identity_file") or shared.identity_file
    if address is None:
        collector.warn(line, f"host without `ip` in pool `{short(pool)}` skipped, as by SkyPilot")
    else:
        collector.add(_made(address, line, shared, user, key_file))
    for key in one.rest():
        collector.warn(key.mark.line, f"unknown key `{short(key.text)}` of a host ignored")


def _warn_of_password(one: TrackedMapping, whose: str, collector: HostCollector) -> None:
    what = f"`password` of {whose} ignored: it is for sudo"
    collector.warn(one.line_of("password"), what, "nvlaunch uses only `sudo -n`, without a password")


def _made(name: str, line: int, shared: ImportedHost, user: str | None, key_file: str | None) -> ImportedHost:
    return ImportedHost(name=name, line=line, user=user, identity_file=key_file, places=shared.places)
