"""dstack's SSH fleets (dstack/_internal/core/models/fleets.py)."""

from launcher.config.importers.collector import HostCollector, number, short
from launcher.config.importers.foreign_yaml import TrackedMapping, as_mapping, compose_yaml
from launcher.config.importers.imported import ImportedHost
from launcher.config.yaml.nodes import ScalarNode, YamlNode
from launcher.config.yaml.text_file import refuse

# Keys about neither logins nor racks: `placement: cluster` only means "interconnected".
_UNUSED = ("name", "placement", "type")


def read(text: str, collector: HostCollector) -> None:
    """Add the hosts of SSH fleets to a collector."""
    for root in compose_yaml(text, collector.out):
        fleet = as_mapping(root, "the file", collector.out)
        if fleet is None:
            continue
        kind = fleet.text("type")
        if kind != "fleet":
            what = f"a dstack file of `type: {short(kind or '?')}` lists no machines"
            raise refuse(collector.out.where, what, mark=fleet.mark, hint="import the file with `type: fleet`")
        access = fleet.mapping("ssh_config")
        if access is None:
            what = "a fleet without `ssh_config` is created in a cloud: it lists no machines"
            raise refuse(collector.out.where, what, mark=fleet.mark, hint="import a fleet with `ssh_config`")
        _fleet(access, collector)
        for key in fleet.rest(*_UNUSED):
            collector.warn(key.mark.line, f"`{short(key.text)}` of the fleet ignored")


def _fleet(access: TrackedMapping, collector: HostCollector) -> None:
    shared = _login(access, None, collector)
    access.text("network")
    for item in access.items("hosts"):
        _host(item, shared, collector)
    for key in access.rest("network"):
        collector.warn(key.mark.line, f"unknown key `{short(key.text)}` of `ssh_config` ignored")


def _login(one: TrackedMapping, below: ImportedHost | None, collector: HostCollector) -> ImportedHost:
    """Return the login settings of a section, completed by the outer section."""
    written = one.text("port")
    port = number(written, 1, 65535)
    if written is not None and port is None:
        collector.mistake(one.line_of("port"), f"`{short(written)}` is not a valid port")
    jump = _jump(one, collector)
    return ImportedHost(
        name="",
        user=one.text("user") or (below.user if below else None),
        port=port or (below.port if below else None),
        identity_file=one.text("identity_file") or (below.identity_file if below else None),
        proxy_jump=jump or (below.proxy_jump if below else None),
    )


def _jump(one: TrackedMapping, collector: HostCollector) -> str | None:
    jump = one.mapping("proxy_jump")
    if jump is None:
        return None
    name, user, port = jump.text("hostname") or "", jump.text("user"), jump.text("port")
    if jump.text("identity_file") is not None:
        hint = "set `IdentityFile` for that host in `~/.ssh/config`"
        collector.warn(jump.line_of("identity_file"), f"`identity_file` of jump host `{short(name)}` ignored", hint)
    return (f"{user}@" if user else "") + name + (f":{port}" if port else "")


def _host(item: YamlNode, shared: ImportedHost, collector: HostCollector) -> None:
    line = item.mark.line
    if isinstance(item, ScalarNode):
        _add(item.text, line, shared, collector)
        return
    one = as_mapping(item, "hosts", collector.out)
    if one is None:
        return
    name = one.text("hostname")
    if name is None:
        collector.mistake(line, "`hostname` of a host is missing")
    else:
        _add(name, line, _login(one, shared, collector), collector)
    if one.text("internal_ip"):
        hint = "ranks use the address of SSH; if this machine can reach the internal one too, set it as `address`"
        collector.warn(one.line_of("internal_ip"), f"`internal_ip` of `{short(name or '?')}` ignored", hint)
    for key in one.rest("identity_file", "user", "port", "proxy_jump"):
        collector.warn(key.mark.line, f"`{short(key.text)}` of `{short(name or '?')}` ignored")


def _add(name: str, line: int, login: ImportedHost, collector: HostCollector) -> None:
    collector.add(
        ImportedHost(
            name=name,
            line=line,
            user=login.user,
            port=login.port,
            identity_file=login.identity_file,
            proxy_jump=login.proxy_jump,
        )
    )
