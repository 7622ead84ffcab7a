"""Cases of other schedulers on our placer: which our model can express, and where the results differ.

A case has an inventory, a request, what its source answers, and whether the hard constraints alone leave one answer.
`free` units of a host become as many nodes of a rack, so that a host with several members is a rack of ours. Where
groups ask for different units of a host, each of its CPUs is a node, with a GPU as long as there are any, and a member
that asks for several is a slice of so many.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from launcher.config.task.levels import check_levels
from launcher.core.model.inventory import RACK_LEVEL, Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.placement import Placement, Shortfall, Slice, Unavailable
from launcher.core.model.task import Group, Task, TopologyRule
from launcher.core.placement.place import place
from launcher.core.placement.replacement import more_nodes, replace_nodes, replace_slice
from launcher.errors import SpecError

Json = dict[str, Any]
BARE = "-"
"""Suffix of a node that is a GPU without a CPU: only groups that ask for no CPU can use it."""
Counts = Mapping[str, Mapping[tuple[str | None, ...], int]]
"""For each group, how many members it has in each domain."""


class Verdict(Enum):
    """How our result compares with theirs."""

    EQUAL = "equal"
    POLICY = "different by policy"
    WRONG = "wrong"
    NOT_EXPRESSIBLE = "not expressible"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """The result of a case, with the reason or both placements."""

    case: str
    verdict: Verdict
    message: str = ""


class NotExpressibleError(Exception):
    """A part of a case that our model cannot express."""


class RefusedError(Exception):
    """A request that our task files refuse before placement."""


def read_cases(path: Path) -> list[Json]:
    """Return the cases of a file."""
    cases: list[Json] = json.loads(path.read_text())["cases"]
    return cases


def judge(case: Json) -> Outcome:
    """Return the result of our placer on a case."""
    try:
        ours = _Case(case).answer()
    except NotExpressibleError as error:
        return Outcome(case=case["id"], verdict=Verdict.NOT_EXPRESSIBLE, message=str(error))
    expected = case["expected"]
    if (ours is not None) != expected["feasible"]:
        said = "placed" if ours is not None else "refused"
        return Outcome(case=case["id"], verdict=Verdict.WRONG, message=f"{said} here, and not there")
    if ours is None or expected.get("assignment") is None:
        return Outcome(case=case["id"], verdict=Verdict.EQUAL)
    theirs = _counts(expected["assignment"])
    if _alike(theirs, ours):
        return Outcome(case=case["id"], verdict=Verdict.EQUAL)
    words = f"theirs {_words(theirs)}; ours {_words(ours)}"
    verdict = Verdict.WRONG if expected.get("unique") else Verdict.POLICY
    return Outcome(case=case["id"], verdict=verdict, message=words)


class _Case:
    """A case in our model."""

    def __init__(self, case: Json) -> None:
        self._case, self._request = case, case["request"]
        self._groups: list[Json] = self._request["groups"]
        self._levels: list[str] = case["levels"]
        self._path: dict[NodeName, tuple[str | None, ...]] = {}
        self._existing: Mapping[str, Sequence[Json]] = case.get("existing") or {}
        self._mixed = len({json.dumps(group["units"]) for group in self._groups}) > 1
        self._each = {group["name"]: max(1, group["units"]["cpu"]) if self._mixed else 1 for group in self._groups}

    def answer(self) -> Counts | None:
        """Return where members are in the end; None where our placer or our task files refuse."""
        self._check()
        inventory = self._inventory()
        try:
            task = Task(name="case", groups=tuple(self._group(group) for group in self._groups))
            check_levels(task, inventory)
        except (RefusedError, SpecError):
            return None
        before = self._before(task)
        if self._case.get("failed_nodes"):
            return self._replaced(task, inventory, before)
        placed = self._grown(task, inventory, before)
        return None if isinstance(placed, Shortfall) else self._of(placed.slices)

    def _check(self) -> None:
        if self._mixed and not all(_of_one_cpu(group) for group in self._groups):
            raise NotExpressibleError("groups that ask for different parts of a host share it")
        if any(group.get("inner_slices") for group in self._groups):
            raise NotExpressibleError("slices in slices in slices")
        pending = sum(group.get("to_place") or group["count"] for group in self._groups)
        least = self._request.get("gang_min")
        if least is not None and not self._existing and least < pending:
            raise NotExpressibleError("a gang that starts with fewer members")
        if any((group.get("min_slices") or 0) > 1 for group in self._groups):
            raise NotExpressibleError("families of slices with a minimum")
        if (self._request.get("job") or {}).get("required") not in (None, *self._levels):
            raise NotExpressibleError("a level that no inventory has, and that means nothing there")
        if (self._request.get("job") or {}).get("required") and len(self._groups) > 1:
            raise NotExpressibleError("one place for all groups of a task that are not near one of them")
        for group in self._groups:
            if group["level"] not in (None, *self._levels) and self._case["expected"]["feasible"]:
                raise NotExpressibleError("a level that no inventory has, and that means nothing there")

    def _inventory(self) -> Inventory:
        nodes = [node for row in self._case["inventory"] for node in self._nodes(row)]
        for group, parts in self._existing.items():
            nodes += [node for part in parts for node in self._held(group, part)]
        upper = tuple(f"their-{level}" for level in self._levels[:-1])
        return Inventory(name="case", transport=Transport.SIM, nodes=tuple(nodes), levels=(*upper, RACK_LEVEL))

    def _nodes(self, row: Json) -> list[Node]:
        """Return a node for each member that a host has room for."""
        units = self._groups[0]["units"]
        free = row["free"]
        if isinstance(units, dict):
            room = min(free.get(name, 0) // count for name, count in units.items() if count)
        else:
            room = (free if isinstance(free, int) else min(free.values())) // units
        bad = "unhealthy" if row.get("unhealthy") else "excluded" if row.get("excluded") else None
        if self._mixed:
            return list(self._units(row, bad))
        return [self._node(f"{row['node']}.{at}", row["domain"], bad) for at in range(max(room, 0))]

    def _units(self, row: Json, bad: str | None) -> Iterator[Node]:
        """Return a node for each CPU of a host, the first ones with its GPUs; a GPU without a CPU is a node too."""
        cpus, gpus = row["free"]["cpu"], row["free"]["gpu"]
        for at in range(max(cpus, gpus)):
            name = f"{row['node']}.{at}" if at < cpus else f"{row['node']}.{at}{BARE}"
            yield replace(self._node(name, row["domain"], bad), gpus=int(at < gpus))

    def _held(self, group: str, part: Json) -> list[Node]:
        where = ".".join(str(name) for name in part["domain"])
        return [self._node(f"{group}@{where}.{at}", part["domain"], None) for at in range(part["count"])]

    def _node(self, name: str, domain: Sequence[str | None], bad: str | None) -> Node:
        path = tuple(domain)
        self._path[NodeName(name)] = path
        named = {
            f"their-{level}": "/".join(str(one) for one in path[: at + 1])
            for at, level in enumerate(self._levels[:-1])
            if None not in path[: at + 1]
        }
        rack = "/".join(str(one) for one in path)
        return Node(
            name=NodeName(name),
            rack=RackName(rack),
            domain=None if path[-1] is None else rack,
            access=Access(address="10.0.0.1"),
            places=named,
            drained=bad,
        )

    def _group(self, group: Json) -> Group:
        size = group.get("slice_size") or 0
        if size and group["count"] % size:
            raise RefusedError(f"{group['count']} members are no slices of {size}")
        leader = next(one for one in self._groups if one is group or self._together(one, group))
        rule = self._rule(group, size) if self._each[group["name"]] == 1 else self._large(group)
        if leader is not group:
            rule = replace(rule, near=leader["name"])
        allowed, gpus = self._allowed(group), group["units"]["gpu"] if self._mixed else 0
        if self._mixed and group["units"]["cpu"]:
            allowed = tuple(f"{name}[0-9]" for name in allowed or ("*.*",))
        return Group(name=group["name"], topology=replace(rule, only_nodes=allowed), gpus=gpus)

    def _large(self, group: Json) -> TopologyRule:
        """Return the rule of members that are as large as several nodes of ours, each on one host."""
        level, size = self._level(group["level"]), self._each[group["name"]]
        whole = level if group["mode"] == "required" and level != RACK_LEVEL else None
        return TopologyRule(slices=group["count"], nodes_per_slice=size, within=RACK_LEVEL, all_within=whole)

    def _rule(self, group: Json, size: int) -> TopologyRule:
        count, level, inner = group["count"], self._level(group["level"]), self._level(group.get("slice_level"))
        each = (inner or "any") if size else "node"
        if group["mode"] == "required" and level is not None:
            if not size:
                return TopologyRule(nodes_per_slice=count, within=level)
            if each == level:
                return TopologyRule(nodes_per_slice=size, slices=count // size, within=level, all_within=None)
            return TopologyRule(slices=count // size, nodes_per_slice=size, within=each, all_within=level)
        if not size:
            size, each = (1, "node") if group["mode"] == "preferred" else (count, "any")
        soft = level if group["mode"] == "preferred" else None
        if "balanced" in self._case["tags"] and not group.get("slice_size"):
            return TopologyRule(nodes_per_slice=count, within="any", balance=soft)
        balance = soft if "balanced" in self._case["tags"] else None
        return TopologyRule(slices=count // size, nodes_per_slice=size, within=each, prefer=soft, balance=balance)

    def _level(self, level: str | None) -> str | None:
        if level is None:
            return None
        return RACK_LEVEL if level == self._levels[-1] else f"their-{level}"

    def _together(self, one: Json, other: Json) -> bool:
        """Preferred or unconstrained groups of one value may be apart after all: nothing is asked of them then."""
        same = one.get("colocate") is not None and one.get("colocate") == other.get("colocate")
        return same and one["mode"] == other["mode"] == "required"

    def _allowed(self, group: Json) -> tuple[str, ...]:
        """Return the nodes that a group may have, by their labels and taints; nothing where all of them are."""
        wanted, borne = group.get("selector") or {}, group.get("tolerations") or []
        rows = [
            row
            for row in self._case["inventory"]
            if all((row.get("labels") or {}).get(key) == value for key, value in wanted.items())
            and all(taint in borne for taint in row.get("taints") or [])
        ]
        if len(rows) == len(self._case["inventory"]):
            return ()
        return tuple(f"{row['node']}.*" for row in rows) or ("nothing",)

    def _before(self, task: Task) -> list[Slice]:
        """Return the members there are already: one slice of each group, or a slice for every slice of its rule."""
        found: list[Slice] = []
        for group in task.groups:
            held = [name for name in self._path if name.startswith(f"{group.name}@")]
            rule = group.topology
            if rule.slices > 1 and rule.nodes_per_slice > 1 and held:
                held.sort(key=lambda name: str(self._path[name]))
            size = rule.nodes_per_slice
            for index in range(-(-len(held) // size) if held else 0):
                nodes = tuple(held[index * size : (index + 1) * size])
                found.append(self._slice(group, index, nodes))
        return found

    def _slice(self, group: Group, index: int, nodes: tuple[NodeName, ...]) -> Slice:
        path = self._path[nodes[0]]
        rack = RackName("/".join(str(one) for one in path))
        local = group.topology.within in (RACK_LEVEL, "node")
        return Slice(
            group=group.name,
            index=index,
            place=rack if local else "any",
            rack=rack if local else None,
            domain=rack if local else None,
            nodes=nodes,
        )

    def _replaced(self, task: Task, inventory: Inventory, before: list[Slice]) -> Counts | None:
        """Return where members are once those on failed hosts are replaced; None where one of them cannot be."""
        failed = set(self._case["failed_nodes"])
        lost = {name for name, path in self._path.items() if path[-1] in failed or name.rsplit(".", 1)[0] in failed}
        unavailable = {name: Unavailable(unhealthy="failed") for name in lost}
        parts = list(before)
        for at, part in enumerate(parts):
            gone = [name for name in part.nodes if name in lost]
            if gone:
                now = Placement(slices=tuple(parts))
                whole = len(gone) == len(part.nodes)
                new = (
                    replace_slice(task, inventory, unavailable, now, part)
                    if whole
                    else replace_nodes(task, inventory, unavailable, now, part, gone)
                )
                if isinstance(new, Shortfall):
                    return None
                parts[at] = new
        return self._of(parts)

    def _grown(self, task: Task, inventory: Inventory, before: list[Slice]) -> Placement | Shortfall:
        """Return the whole task where some members are already: incomplete slices get the rest beside them."""
        kept: list[Slice] = []
        for part in before:
            size = task.group(part.group).topology.nodes_per_slice
            if len(part.nodes) < size:
                now = Placement(slices=(*kept, *(one for one in before if one.key > part.key)))
                more = more_nodes(task, inventory, {}, now, part, part.nodes, size - len(part.nodes))
                if isinstance(more, Shortfall):
                    return more
                part = replace(part, nodes=(*part.nodes, *(node.name for node in more)))
            if part.index < task.group(part.group).topology.slices:
                kept.append(part)
        return place(task, inventory, {}, kept)

    def _of(self, parts: Sequence[Slice]) -> Counts:
        found: dict[str, Counter[tuple[str | None, ...]]] = {group["name"]: Counter() for group in self._groups}
        for part in parts:
            found[part.group].update(self._path[name] for name in part.nodes)
        for name, counts in found.items():
            for path in counts:
                counts[path] //= self._each[name]
        return found


def _of_one_cpu(group: Json) -> bool:
    """Whether a member is made of our nodes: one with or without a GPU, or several without."""
    units = group["units"]
    if not isinstance(units, dict) or units.keys() != {"cpu", "gpu"} or units["gpu"] > 1:
        return False
    return bool(units["cpu"] <= 1 or (units["gpu"] == 0 and not group.get("slice_size")))


def _counts(assignment: Mapping[str, Sequence[Json]]) -> Counts:
    return {
        name: Counter({tuple(part["domain"]): part["count"] for part in parts}) for name, parts in assignment.items()
    }


def _alike(theirs: Counts, ours: Counts) -> bool:
    """Whether the counts agree as deep as their paths go; two places with equal counts may be named in turn."""
    for name, expected in theirs.items():
        depth = max((len(path) for path in expected), default=0)
        got: Counter[tuple[str | None, ...]] = Counter()
        for path, count in ours.get(name, {}).items():
            got[path[:depth]] += count
        if got != Counter(expected):
            return False
    return True


def _words(counts: Counts) -> str:
    return ", ".join(
        f"{name}: " + " ".join(f"{'/'.join(map(str, path))}={count}" for path, count in sorted(parts.items(), key=str))
        for name, parts in counts.items()
    )


def report(outcomes: Sequence[Outcome]) -> str:
    """Return the numbers, then each case that is not equal."""
    tally = Counter(outcome.verdict for outcome in outcomes)
    expressible = len(outcomes) - tally[Verdict.NOT_EXPRESSIBLE]
    lines = [f"{len(outcomes)} cases: {expressible} expressible"]
    lines += [f"  {verdict.value}: {tally[verdict]}" for verdict in Verdict]
    for verdict in (Verdict.WRONG, Verdict.POLICY, Verdict.NOT_EXPRESSIBLE):
        lines += [f"{verdict.value}: {one.case}: {one.message}" for one in outcomes if one.verdict is verdict]
    return "\n".join(lines)
