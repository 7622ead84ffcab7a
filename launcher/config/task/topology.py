"""The `topology` of a group: where its slices may be, and what they ask of each other and of other groups."""

from collections.abc import Mapping

from launcher.config.task.counts import Counting
from launcher.config.yaml.reading import Reading, Values
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.task import TopologyRule


def read_rule(own: Values, gpus: int | None, out: Reading) -> TopologyRule:
    """Return the topology of a group of `gpus` a node (None: wrong in the file, and said already)."""
    topology = own.section("topology")
    # Without GPUs there is no NVLink domain to stay inside, unless the file says where to be; a guest is where its host
    # is (`sharing`).
    free = (gpus == 0 and not own.has("topology")) or topology.has("nodes_of")
    default = ANY_LEVEL if free else RACK_LEVEL
    *outer, within = topology.texts("within") or (default,)
    if len(outer) > 1:
        hint = "write the level of all slices together, and then that of each: `[block, rack]`"
        out.mistake(topology.mark_of("within"), "`topology.within` has more than two levels", hint)
    counts = Counting(own, topology, within, gpus, out).counts()
    rule = TopologyRule(
        slices=counts.slices,
        nodes_per_slice=counts.nodes_per_slice,
        within=within,
        all_within=outer[0] if outer and outer[0] != ANY_LEVEL else None,
        prefer=topology.get("prefer", str),
        balance=topology.get("balance", str),
        spread=topology.get("spread", str),
        spread_members=topology.get("spread_members", str),
        exclusive=topology.get("exclusive", str),
        near=topology.get("near", str),
        apart_from=topology.get("apart_from", str),
        nodes_of=topology.get("nodes_of", str),
        spares=topology.get("spares", int) or 0,
        spares_per_rack=topology.get("spares_per_rack", int) or 0,
        racks=topology.texts("racks"),
        exclude_racks=topology.texts("exclude_racks"),
        only_nodes=topology.texts("nodes"),
        exclude_nodes=topology.texts("exclude_nodes"),
    )
    _check_spares(rule, topology, out)
    return rule


def _check_spares(rule: TopologyRule, topology: Values, out: Reading) -> None:
    if rule.spares_per_rack and rule.within != RACK_LEVEL:
        what = f"`spares_per_rack` needs `within: rack`, not `{rule.within}`"
        out.mistake(topology.key_of("spares_per_rack"), what, "use `spares`, which are kept for each slice")
    if rule.spares and rule.within == NODE_LEVEL:
        what = "`spares` of slices `within: node` would have to be on the node that they stand in for"
        out.mistake(topology.key_of("spares"), what, "say `within: rack`, or remove `spares`")


def check_company(roles: Mapping[str, Values], out: Reading) -> None:
    """Note a `near` or `apart_from` that names no other group, both of one group, and groups each near to the next."""
    near: dict[str, str] = {}
    for name, own in roles.items():
        topology = own.section("topology")
        for key in ("near", "apart_from"):
            other = topology.get(key, str)
            if other is not None and (other == name or other not in roles):
                known = ", ".join(f"`{one}`" for one in roles if one != name)
                hint = f"the other groups are {known}" if known else "it is for tasks of several `groups`"
                out.mistake(topology.mark_of(key), f"`{key}: {other}` is no other group of this task", hint)
        if (leader := topology.get("near", str)) is not None and leader in roles and leader != name:
            near[name] = leader
            if leader == topology.get("apart_from", str):
                out.mistake(
                    topology.key_of("apart_from"), f"`apart_from: {leader}` beside `near: {leader}`", "keep one"
                )
    for name in near:
        chain = [name]
        while (leader := near.get(chain[-1], "")) and leader not in chain:
            chain.append(leader)
        if leader == name and name == min(chain):
            circle = " and ".join(f"`{one}`" for one in chain)
            mark = roles[name].section("topology").mark_of("near")
            out.mistake(mark, f"{circle} are `near` each other in a circle", "say it in one of them only")
