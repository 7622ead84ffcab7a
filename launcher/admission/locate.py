"""Asks nodes where they are, for an inventory that is written or compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from launcher.core.discovery.location import NodeLocation
from launcher.core.model.inventory import GpuDriver, Node
from launcher.core.model.nodeset import NodeName, fold
from launcher.ports import Listener, Prober
from launcher.probe.location import read_location
from launcher.probe.results import Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """Where nodes are, and why others did not report it. CPU nodes are not asked."""

    told: Mapping[NodeName, NodeLocation]
    silent: Mapping[NodeName, str]

    @property
    def blind(self) -> bool:
        """Whether no node reported anything."""
        return bool(self.silent) and not self.told

    def folded(self) -> tuple[tuple[str, str], ...]:
        """Return the nodes without a report, and why; equal reasons together."""
        alike: dict[str, list[str]] = {}
        for name, why in self.silent.items():
            alike.setdefault(why, []).append(name)
        return tuple((fold(names), why) for why, names in alike.items())


def survey(nodes: Sequence[Node], prober: Prober, listener: Listener) -> Survey:
    """Return the reports of these nodes, all asked at the same time."""
    asked = [node for node in nodes if node.gpu_driver is not GpuDriver.NONE]
    answers = prober.probe(asked, listener)
    found = {node.name: read_location(answers[node.name]) for node in asked}
    return Survey(
        told={name: one for name, one in found.items() if not isinstance(one, Unknown)},
        silent={name: one.why for name, one in found.items() if isinstance(one, Unknown)},
    )
