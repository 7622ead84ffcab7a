"""dstack's SSH fleets (dstack/_internal/core/models/fleets.py)."""

from launcher.config.importers.documents import Section, compose, section
from launcher.config.importers.found import Host
from launcher.config.importers.roster import Roster, number, short
from launcher.config.yaml.nodes import Node, Scalar
from launcher.config.yaml.source import refuse

# What says nothing of how machines are reached, and nothing of racks: `placement: cluster` only says "interconnected".
_MUTE = ("name", "placement", "type")


def read(text: str, roster: Roster) -> None:
    """Add the hosts of SSH fleets to a roster."""
    for root in compose(text, roster.out):
        fleet = section(root, "the file", roster.out)
        if fleet is None:
            continue
        kind = fleet.text("type")
        if kind != "fleet":
            what = f"this is dstack's `type: {short(kind or '?')}`, which lists no machines"
            raise refuse(roster.out.where, what, mark=fleet.mark, hint="import the file with `type: fleet`")
        access = fleet.section("ssh_config")
        if access is None:
            what = "this fleet is made in a cloud: it lists no machines"
            raise refuse(
                roster.out.where, what, mark=fleet.mark, hint="only fleets with `ssh_config` have hosts of their own"
            )
        _fleet(access, roster)
        for key in fleet.rest(*_MUTE):
            roster.remark(key.mark.line, f"`{short(key.text)}` of the fleet is left out")


def _fleet(access: Section, roster: Roster) -> None:
    shared = _login(access, None, roster)
    access.text("network")
    for item in access.items("hosts"):
        _host(item, shared, roster)
    for key in access.rest("network"):
        roster.remark(key.mark.line, f"`{short(key.text)}` of `ssh_config` is not known here, and is left out")


def _login(one: Section, below: Host | None, roster: Roster) -> Host:
    """Return how to log in by a section, and by the one around it where it says nothing."""
    written = one.text("port")
    port = number(written, 1, 65535)
    if written is not None and port is None:
        roster.wrong(one.line_of("port"), f"`{short(written)}` cannot be a port")
    jump = _jump(one, roster)
    return Host(
        name="",
        user=one.text("user") or (below.user if below else None),
        port=port or (below.port if below else None),
        identity_file=one.text("identity_file") or (below.identity_file if below else None),
        proxy_jump=jump or (below.proxy_jump if below else None),
    )


def _jump(one: Section, roster: Roster) -> str | None:
    jump = one.section("proxy_jump")
    if jump is None:
        return None
    name, user, port = jump.text("hostname") or "", jump.text("user"), jump.text("port")
    if jump.text("identity_file") is not None:
        hint = "name it for that host in `~/.ssh/config`, which is read as OpenSSH reads it"
        roster.remark(jump.line_of("identity_file"), f"the key of jump host `{short(name)}` is left out", hint)
    return (f"{user}@" if user else "") + name + (f":{port}" if port else "")


def _host(item: Node, shared: Host, roster: Roster) -> None:
    line = item.mark.line
    if isinstance(item, Scalar):
        _add(item.text, line, shared, roster)
        return
    one = section(item, "hosts", roster.out)
    if one is None:
        return
    name = one.text("hostname")
    if name is None:
        roster.wrong(line, "a host has no `hostname`")
    else:
        _add(name, line, _login(one, shared, roster), roster)
    if one.text("internal_ip"):
        hint = "ranks meet at the address that SSH uses; name the internal one where both reach it"
        roster.remark(one.line_of("internal_ip"), f"`internal_ip` of `{short(name or '?')}` is left out", hint)
    for key in one.rest("identity_file", "user", "port", "proxy_jump"):
        roster.remark(key.mark.line, f"`{short(key.text)}` of `{short(name or '?')}` is left out")


def _add(name: str, line: int, login: Host, roster: Roster) -> None:
    roster.add(
        Host(
            name=name,
            line=line,
            user=login.user,
            port=login.port,
            identity_file=login.identity_file,
            proxy_jump=login.proxy_jump,
        )
    )
