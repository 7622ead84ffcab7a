"""Node filters: which nodes a group can use, and why not the others."""

import re
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from fnmatch import translate

from launcher.core.model.inventory import ANY_LEVEL, NODE_LEVEL, RACK_LEVEL, GpuDriver, Node, RackName
from launcher.core.model.nodeset import NodeName, expand
from launcher.core.model.placement import Exclusion, Unavailable, UnavailableNodes
from launcher.core.model.task import Group, TopologyRule
from launcher.core.placement.constraints import Constraints


class NodeFilter:
    """The requirements of a group, checked against the inventory as it is now.

    `assigned` are the nodes of other slices of the same task; `constraints` follow from where those slices are.
    """

    def __init__(
        self,
        group: Group,
        unavailable: UnavailableNodes,
        assigned: AbstractSet[NodeName],
        constraints: Constraints | None = None,
    ) -> None:
        rule = group.topology
        self.group = group
        self.unavailable = unavailable
        self.assigned = assigned
        self.constraints = constraints
        self._accelerator = None if group.accelerator is None else group.accelerator.casefold()
        self._rack_local = rule.within == RACK_LEVEL
        self._levels = tuple(required_levels(rule))
        self._racks = NamePattern(rule.racks) if rule.racks else None
        self._excluded_racks = NamePattern(rule.exclude_racks)
        self._nodes = NamePattern(rule.only_nodes) if rule.only_nodes else None
        self._excluded_nodes = NamePattern(rule.exclude_nodes) if rule.exclude_nodes else None
        self._rack_excluded: dict[RackName, bool] = {}

    @property
    def by_node_name(self) -> bool:
        """Whether the group names nodes, so that otherwise equal nodes differ."""
        return self._nodes is not None or self._excluded_nodes is not None

    def exclusion(self, node: Node) -> Exclusion | None:
        """Return the first reason why the group cannot use a node; None if it can."""
        use = self.unavailable.get(node.name)
        if self._excludes_rack(node.rack) or self._excludes_name(node.name):
            return Exclusion.EXCLUDED
        if node.drained is not None or (use is not None and use.drained is not None):
            return Exclusion.DRAINED
        if use is not None and use.unhealthy is not None:
            return Exclusion.UNHEALTHY
        if self._rack_local and node.domain is None:
            return Exclusion.NO_DOMAIN
        if self._levels and None in [node.at(level) for level in self._levels]:
            return Exclusion.NO_LEVEL
        if self._accelerator is not None and not self._has_accelerator(node):
            return Exclusion.ACCELERATOR
        if node.gpus < self.group.gpus:
            return Exclusion.TOO_FEW_GPUS
        if use is not None and use.used_by is not None:
            return Exclusion.IN_USE if use.reserved_for is None else Exclusion.RESERVED
        if node.name in self.assigned:
            return Exclusion.OTHER_SLICE
        return None if self.constraints is None else self.constraints.exclusion(node)

    def _has_accelerator(self, node: Node) -> bool:
        # The declared GPUs of a CPU node match any kind; real GPUs of an unknown kind match none.
        if node.accelerator is None:
            return node.gpu_driver is GpuDriver.NONE
        return node.accelerator.casefold() == self._accelerator

    def _excludes_name(self, name: NodeName) -> bool:
        wanted = self._nodes is None or self._nodes.matches(name)
        return not wanted or (self._excluded_nodes is not None and self._excluded_nodes.matches(name))

    def _excludes_rack(self, rack: RackName) -> bool:
        excluded = self._rack_excluded.get(rack)
        if excluded is None:
            wanted = self._racks is None or self._racks.matches(rack)
            excluded = not wanted or self._excluded_racks.matches(rack)
            self._rack_excluded[rack] = excluded
        return excluded


class NamePattern:
    """A set of names in a task file: globs, and ranges such as `r07-n[01-16]`.

    A pure glob would read `[01-16]` as one character, which is never what the author means.
    """

    __slots__ = ("_globs", "_names")

    def __init__(self, texts: Iterable[str]) -> None:
        parts = [part for text in texts for part in _expand_ranges(text)]
        self._names = frozenset(part for part in parts if not re.search(r"[*?\[]", part))
        globs = [translate(part) for part in parts if part not in self._names]
        self._globs = re.compile("|".join(globs)) if globs else None

    def matches(self, name: str) -> bool:
        """Whether the set contains this name."""
        return name in self._names or (self._globs is not None and self._globs.match(name) is not None)


def required_levels(rule: TopologyRule) -> frozenset[str]:
    """Return the levels at which a node must have a named domain for a rule."""
    apart = None if rule.apart_from is None else rule.apart_level
    levels = {rule.within, rule.all_within, rule.spread, rule.spread_members, rule.exclusive, apart}
    return frozenset(level for level in levels if level is not None and level not in _ALWAYS_NAMED)


def is_free(node: Node, use: Unavailable | None) -> bool:
    """Whether a node is not in use, healthy and not drained; `use` may be None."""
    if node.drained is not None:
        return False
    return use is None or use.free


_ALWAYS_NAMED = (NODE_LEVEL, RACK_LEVEL, ANY_LEVEL)
"""The levels at which every node has a domain."""

_RANGE_IN_BRACKETS = re.compile(r"\[[^\]]*([0-9]{2,}-|-[0-9]{2,}|,|/)[^\]]*\]")


def _expand_ranges(text: str) -> tuple[str, ...]:
    """Return the globs that a pattern with ranges expands to."""
    if not _RANGE_IN_BRACKETS.search(text):
        return (text,)
    try:
        return expand(text)
    except ValueError:  # a comma in a character class: a glob after all
        return (text,)
