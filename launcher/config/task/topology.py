"""The `topology` of a group: where its slices may be placed."""

from collections.abc import Mapping

from launcher.config.task.slice_counts import SliceCounter
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.values import Values
from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL
from launcher.core.model.task import TopologyRule


def read_rule(own: Values, gpus: int | None, out: Diagnostics) -> TopologyRule:
    """Return the topology of a group with `gpus` on each node.

    `gpus` None: the file is wrong there, which has been reported already.
    """
    topology = own.section("topology")
    # Without GPUs, a group without `topology` needs no NVLink domain. A group with `nodes_of` follows the other group.
    free = (gpus == 0 and not own.has("topology")) or topology.has("nodes_of")
    default = ANY_LEVEL if free else RACK_LEVEL
    *outer, within = topology.texts("within") or (default,)
    if len(outer) > 1:
        hint = "write the level of all slices, then the level of each slice: `[block, rack]`"
        out.mistake(topology.mark_of("within"), "`topology.within` has more than two levels", hint)
    counts = SliceCounter(own, topology, within, gpus, out).counts()
    rule = TopologyRule(
        slices=counts.slices,
        min_slices=counts.min_slices,
        max_slices=None if counts.min_slices is None else counts.slices,
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


def _check_spares(rule: TopologyRule, topology: Values, out: Diagnostics) -> None:
    if rule.spares_per_rack and rule.within != RACK_LEVEL:
        what = f"`spares_per_rack` requires `within: rack`, not `{rule.within}`"
        out.mistake(topology.key_of("spares_per_rack"), what, "use `spares`, which are kept for each slice")
    if rule.spares and rule.within == NODE_LEVEL:
        what = "`spares` cannot be combined with `within: node`: the domain of each slice is a single node"
        out.mistake(topology.key_of("spares"), what, "use `within: rack`, or remove `spares`")


def check_near_and_apart(groups: Mapping[str, Values], out: Diagnostics) -> None:
    """Report unknown groups, contradictions and circles of `near`, `apart_from`."""
    near: dict[str, str] = {}
    for name, own in groups.items():
        topology = own.section("topology")
        for key in ("near", "apart_from"):
            other = topology.get(key, str)
            if other is not None and (other == name or other not in groups):
                known = ", ".join(f"`{one}`" for one in groups if one != name)
                hint = f"the other groups are {known}" if known else "remove it: the task has only one group"
                out.mistake(topology.mark_of(key), f"`{key}: {other}` is not another group of this task", hint)
        if (leader := topology.get("near", str)) is not None and leader in groups and leader != name:
            near[name] = leader
            if leader == topology.get("apart_from", str):
                what = f"`apart_from: {leader}` contradicts `near: {leader}`"
                out.mistake(topology.key_of("apart_from"), what, "remove one of the two")
    for name in near:
        chain = [name]
        while (leader := near.get(chain[-1], "")) and leader not in chain:
            chain.append(leader)
        if leader == name and name == min(chain):
            circle = " -> ".join(f"`{one}`" for one in (*chain, name))
            mark = groups[name].section("topology").mark_of("near")
            out.mistake(mark, f"`near` forms a circle: {circle}", "remove one of them")
