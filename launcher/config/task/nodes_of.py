"""`nodes_of`: groups that share the nodes of another group, the host.

`colocate_groups` checks their keys and sizes their slices.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.values import Values
from launcher.core.model.task import Group
from launcher.core.placement import colocation

KEY = "nodes_of"
COUNTS = ("slices", "nodes_per_slice", "gpus_per_slice")

_Forms = Mapping[str, tuple[Group, ...]]


def colocate_groups(groups: Mapping[str, Values], forms: _Forms, out: Diagnostics) -> _Forms:
    """Return the forms of all groups.

    Those with `nodes_of` get slices that fit on the nodes of their host. Mistakes are reported to `out`.
    """
    hosts = {name: host for name, own in groups.items() if (host := own.section("topology").get(KEY, str)) is not None}
    found = dict(forms)
    for name, host in hosts.items():
        own = groups[name]
        mark = own.section("topology").mark_of(KEY)
        mistake = _wrong_host(name, host, groups, hosts)
        if mistake is not None:
            out.mistake(mark, *mistake)
            continue
        _check_keys(own, host, out)
        _check_commands(own, groups[host], host, out)
        found[name] = tuple(_in_slices(one, forms[host][0], own) for one in forms[name])
        _check_room(found[name], forms[host], host, own, mark, out)
    _check_near_and_apart(groups, hosts, out)
    _check_number(groups, hosts, out)
    return found


def _wrong_host(name: str, host: str, groups: Mapping[str, Values], hosts: Mapping[str, str]) -> tuple[str, str] | None:
    if host == name or host not in groups:
        known = ", ".join(f"`{one}`" for one in groups if one != name)
        hint = f"the other groups are {known}" if known else "remove it: the task has only one group"
        return f"`{KEY}: {host}` is not another group of this task", hint
    if host in hosts:
        what = f"`{KEY}: {host}`: group `{host}` itself uses the nodes of `{hosts[host]}`"
        return what, f"write `{KEY}: {hosts[host]}`" if hosts[host] != name else f"remove one of the two `{KEY}`"
    return None


def _check_keys(own: Values, host: str, out: Diagnostics) -> None:
    topology = own.section("topology")
    for key in topology.found:
        if key not in (KEY, *COUNTS):
            what = f"`{key}` cannot be combined with `{KEY}: {host}`: group `{host}` places the nodes"
            out.mistake(topology.key_of(key), what, f"move it to `{host}`, or remove it")


def _check_commands(own: Values, host: Values, name: str, out: Diagnostics) -> None:
    for side in (own, host):
        if side.has("driver"):
            what = f"`driver` cannot be combined with `{KEY}: {name}`: a driver does not share nodes"
            out.mistake(side.key_of("driver"), what, f"use `run`, or remove `{KEY}` to give each group its own nodes")


def _in_slices(group: Group, host: Group, own: Values) -> Group:
    """Return a group in the slices that it asks for.

    With only `num_nodes`, its slices have the size of the host's.
    """
    rule, size = group.topology, host.topology.nodes_per_slice
    counted = any(own.section("topology").has(key) for key in COUNTS)
    if not counted and rule.nodes_per_slice > size and rule.nodes_per_slice % size == 0:
        rule = replace(rule, slices=rule.nodes_per_slice // size, nodes_per_slice=size)
    return replace(group, topology=replace(rule, within=host.topology.within))


def _check_room(
    guests: Sequence[Group], hosts: Sequence[Group], name: str, own: Values, mark: Mark, out: Diagnostics
) -> None:
    for guest, host in product(guests, hosts):
        kinds = {one.accelerator.casefold() for one in (guest, host) if one.accelerator is not None}
        if len(kinds) > 1:
            what = f"`{KEY}: {name}`: the group asks for `{guest.accelerator}`, but `{name}` for `{host.accelerator}`"
            out.mistake(own.mark_of("resources"), what, "use the same accelerator in both groups")
            return
        room = colocation.max_colocated_slices(guest.topology, host.topology)
        if guest.topology.slices > room:
            asked = f"{guest.topology.slices} x {guest.topology.nodes_per_slice}"
            has = f"{host.topology.slices} x {host.topology.nodes_per_slice}"
            what = f"`{KEY}: {name}`: slices of {asked} nodes do not fit into the slices of `{name}`, {has} nodes"
            out.mistake(mark, what, f"use fewer nodes, or slices that are not larger than those of `{name}`")
            return


def _check_near_and_apart(groups: Mapping[str, Values], hosts: Mapping[str, str], out: Diagnostics) -> None:
    for name, own in groups.items():
        topology = own.section("topology")
        for key in ("near", "apart_from"):
            other = topology.get(key, str)
            if other is not None and other in hosts:
                what = f"`{key}: {other}`: group `{other}` uses the nodes of `{hosts[other]}`"
                hint = "remove it" if hosts[other] == name else f"write `{key}: {hosts[other]}`"
                out.mistake(topology.mark_of(key), what, hint)


def _check_number(groups: Mapping[str, Values], hosts: Mapping[str, str], out: Diagnostics) -> None:
    for name, more in _too_many(hosts):
        what = f"more than {colocation.MAX_COLOCATED_GROUPS} groups share the nodes of `{name}`"
        out.mistake(groups[more].section("topology").mark_of(KEY), what, f"remove `{KEY}` from some of them")


def _too_many(hosts: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yield each host with too many groups, and the first group above the limit."""
    for host in dict.fromkeys(hosts.values()):
        own = [name for name, other in hosts.items() if other == host]
        if len(own) > colocation.MAX_COLOCATED_GROUPS:
            yield host, own[colocation.MAX_COLOCATED_GROUPS]
