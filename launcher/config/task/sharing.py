"""Groups that sit on the nodes of another (`nodes_of`): what they may say, and what follows from their host."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.reading import Reading, Values
from launcher.core.model.task import Group
from launcher.core.placement import colocation

KEY = "nodes_of"
COUNTS = ("slices", "nodes_per_slice", "gpus_per_slice")

_Forms = Mapping[str, tuple[Group, ...]]


def slot_guests(roles: Mapping[str, Values], forms: _Forms, out: Reading) -> _Forms:
    """Return the groups of a task, those with `nodes_of` in slices that fit on the nodes of their host; each in all its
    forms. What cannot be is noted."""
    hosts = {name: host for name, own in roles.items() if (host := own.section("topology").get(KEY, str)) is not None}
    found = dict(forms)
    for name, host in hosts.items():
        own = roles[name]
        mark = own.section("topology").mark_of(KEY)
        wrong = _wrong_host(name, host, roles, hosts)
        if wrong is not None:
            out.mistake(mark, *wrong)
            continue
        _check_keys(own, host, out)
        _check_commands(own, roles[host], host, out)
        found[name] = tuple(_shaped(one, forms[host][0], own) for one in forms[name])
        _check_room(found[name], forms[host], host, own, mark, out)
    _check_company(roles, hosts, out)
    _check_number(roles, hosts, out)
    return found


def _wrong_host(name: str, host: str, roles: Mapping[str, Values], hosts: Mapping[str, str]) -> tuple[str, str] | None:
    if host == name or host not in roles:
        known = ", ".join(f"`{one}`" for one in roles if one != name)
        hint = f"the other groups are {known}" if known else "it is for tasks of several `groups`"
        return f"`{KEY}: {host}` is no other group of this task", hint
    if host in hosts:
        what = f"`{KEY}: {host}`: that group has no nodes of its own, it sits on those of `{hosts[host]}`"
        return what, f"say `{KEY}: {hosts[host]}`" if hosts[host] != name else "say it in one of them only"
    return None


def _check_keys(own: Values, host: str, out: Reading) -> None:
    topology = own.section("topology")
    for key in topology.found:
        if key not in (KEY, *COUNTS):
            what = f"`{key}` beside `{KEY}: {host}`: where those nodes are is for `{host}` to say"
            out.mistake(topology.key_of(key), what, f"move it to `{host}`, or remove it")


def _check_commands(own: Values, host: Values, name: str, out: Reading) -> None:
    for side in (own, host):
        if side.has("driver"):
            what = f"`driver` and `{KEY}: {name}`: a driver has its nodes to itself"
            out.mistake(side.key_of("driver"), what, f"use `run`, or give each group its own nodes: remove `{KEY}`")


def _shaped(group: Group, host: Group, own: Values) -> Group:
    """Return a group in the slices that it asks for; with only a number of nodes, in slices as large as its host's."""
    rule, size = group.topology, host.topology.nodes_per_slice
    counted = any(own.section("topology").has(key) for key in COUNTS)
    if not counted and rule.nodes_per_slice > size and rule.nodes_per_slice % size == 0:
        rule = replace(rule, slices=rule.nodes_per_slice // size, nodes_per_slice=size)
    return replace(group, topology=replace(rule, within=host.topology.within))


def _check_room(
    guests: Sequence[Group], hosts: Sequence[Group], name: str, own: Values, mark: Mark, out: Reading
) -> None:
    for guest, host in product(guests, hosts):
        kinds = {one.accelerator.casefold() for one in (guest, host) if one.accelerator is not None}
        if len(kinds) > 1:
            what = f"`{KEY}: {name}`: it asks for `{guest.accelerator}`, and those nodes have `{host.accelerator}`"
            out.mistake(own.mark_of("resources"), what, "name the same accelerator in both")
            return
        room = colocation.max_colocated_slices(guest.topology, host.topology)
        if guest.topology.slices > room:
            asked = f"{guest.topology.slices} x {guest.topology.nodes_per_slice}"
            has = f"{host.topology.slices} x {host.topology.nodes_per_slice}"
            what = f"`{KEY}: {name}`: {asked} nodes do not fit on {has}, each slice inside one"
            out.mistake(mark, what, f"ask for fewer nodes, or for slices no larger than those of `{name}`")
            return


def _check_company(roles: Mapping[str, Values], hosts: Mapping[str, str], out: Reading) -> None:
    for name, own in roles.items():
        topology = own.section("topology")
        for key in ("near", "apart_from"):
            other = topology.get(key, str)
            if other is not None and other in hosts:
                what = f"`{key}: {other}`: that group sits on the nodes of `{hosts[other]}`"
                hint = "remove it" if hosts[other] == name else f"name `{hosts[other]}`"
                out.mistake(topology.mark_of(key), what, hint)


def _check_number(roles: Mapping[str, Values], hosts: Mapping[str, str], out: Reading) -> None:
    for name, more in _crowded(hosts):
        what = f"more than {colocation.MAX_COLOCATED_GROUPS} groups sit on the nodes of `{name}`"
        out.mistake(roles[more].section("topology").mark_of(KEY), what, "give some of them nodes of their own")


def _crowded(hosts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Return each host of too many, with the first that is too many."""
    for host in dict.fromkeys(hosts.values()):
        own = [name for name, other in hosts.items() if other == host]
        if len(own) > colocation.MAX_COLOCATED_GROUPS:
            yield host, own[colocation.MAX_COLOCATED_GROUPS]
