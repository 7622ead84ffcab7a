"""Nodes asked where they are, for an inventory to be written or compared."""

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
    """What nodes told of their place, and why others did not. CPU nodes are not asked: they are where the file says."""

    told: Mapping[NodeName, NodeLocation]
    silent: Mapping[NodeName, str]

    @property
    def blind(self) -> bool:
        """Whether nobody told anything."""
        return bool(self.silent) and not self.told

    def folded(self) -> tuple[tuple[str, str], ...]:
        """Return the silent nodes with why, alike ones together."""
        said: dict[str, list[str]] = {}
        for name, why in self.silent.items():
            said.setdefault(why, []).append(name)
        return tuple((fold(names), why) for why, names in said.items())


def survey(nodes: Sequence[Node], prober: Prober, listener: Listener) -> Survey:
    """Return what these nodes tell, all asked at once."""
    asked = [node for node in nodes if node.gpu_driver is not GpuDriver.NONE]
    answers = prober.probe(asked, listener)
    found = {node.name: read_location(answers[node.name]) for node in asked}
    return Survey(
        told={name: one for name, one in found.items() if not isinstance(one, Unknown)},
        silent={name: one.why for name, one in found.items() if isinstance(one, Unknown)},
    )
