"""Imaginary nodes with checks, and a checker whose answers a test may change."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from launcher.config.inventory.read import parse_inventory
from launcher.core.checks.results import CheckedNode, CheckGroup, NodeVerdict, cannot_tell
from launcher.core.model.inventory import Inventory

TEXT = """
name: hall
transport: sim
checks:
  before_start: {{run: check, scope: {scope}, time_limit: 1m}}
  before_return: {{run: check, scope: {scope}, time_limit: 1m}}
  periodic_idle: {{run: check, scope: {scope}, time_limit: 1m, every: 1h}}
racks:
  r1: {{nodes: "r1-n[1-8]"}}
  r2: {{nodes: "r2-n[1-8]"}}
"""


def fleet(scope: str = "node") -> Inventory:
    return parse_inventory(TEXT.format(scope=scope), Path("fleet.yaml"))


@dataclass
class Checker:
    """Answers by sets of names; `seen` are the groups that were checked."""

    bad: set[str] = field(default_factory=set)
    slow: set[str] = field(default_factory=set)
    silent: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    meanwhile: Callable[[CheckGroup], None] = lambda _: None
    seen: list[CheckGroup] = field(default_factory=list)
    closed: int = 0

    def check(self, group: CheckGroup, stopped: Callable[[], bool]) -> tuple[CheckedNode, ...]:
        self.seen.append(group)
        self.meanwhile(group)
        names = [node.name for node in group.nodes]
        late = self.late & set(names)
        slow = self.slow & set(names)
        return tuple(
            cannot_tell(name, "the command is not found")
            if name in self.silent
            else cannot_tell(name, "it did not end", timed_out=True)
            if late or stopped()
            else CheckedNode(node=name, verdict=NodeVerdict.BAD, message="exit status 1", tail=("Xid 79",))
            if name in self.bad
            else CheckedNode(node=name, verdict=NodeVerdict.GOOD, number=50.0 if slow else 100.0)
            for name in names
        )

    def close(self) -> None:
        self.closed += 1
