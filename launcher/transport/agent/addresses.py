"""Where the units of a run are, by the transport of its inventory."""

import sys
from hashlib import sha256
from pathlib import Path

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access, Inventory, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Run, RunId
from launcher.ports import Shell
from launcher.setup import layout, ports
from launcher.setup.environ import RunEnvironment
from launcher.transport.agent.client import Json, Site
from launcher.transport.agent.poller import Looks
from launcher.transport.upload.bundle import Files

FALLBACK_LEASE = "/tmp/.nvlaunch-lease"  # noqa: S108 - a known place that anybody may lock is the point


def leases(fleet: Inventory) -> tuple[str, ...]:
    """Return where the lease of a machine may be, the first path that can be used."""
    return (fleet.lease_path, FALLBACK_LEASE)


def _is_placed_alike(one: Run, other: Run) -> bool:
    return one.placement is other.placement and one.task is other.task and one.fleet is other.fleet


class Sites:
    """The units of runs on the machines of one inventory."""

    def __init__(self, home: Path, fleet: Inventory, shell: Shell) -> None:
        self.home = home
        self.looks = Looks(shell)
        self._local = fleet.transport is Transport.LOCAL
        self._shell = shell
        self._blocks: dict[tuple[str, str], int] = {}
        self._environments: dict[RunId, tuple[Run, RunEnvironment]] = {}
        self._placed: dict[tuple[str, str], Files] = {}

    def environment(self, run: Run) -> RunEnvironment:
        """Return the variables of a run's programs and who belongs to whom in it: made anew for another placement."""
        known = self._environments.get(run.id)
        if known is None or not _is_placed_alike(known[0], run):
            known = self._environments[run.id] = (run, RunEnvironment(run))
        return known[1]

    def put(self, site: Site, files: Files, kept: Files) -> None:
        """Put files below the folder of a unit, and take note of those in `kept`."""
        site.put({**files, **kept})
        self._placed[site.access.address, site.layout.root] = kept

    def ensure(self, site: Site, files: Files) -> None:
        """Put files below the folder of a unit, unless we did so before and nothing of them has changed since."""
        placed = self._placed.setdefault((site.access.address, site.layout.root), {})
        lacking = {name: file for name, file in files.items() if placed.get(name) != file}
        if lacking:
            site.put(lacking)
            placed.update(lacking)

    def note_block(self, site: Site, told: Json) -> int:
        """Take in what an agent said of itself; return the first of its ports, which it keeps as long as it lives."""
        block = self._blocks[site.access.address, site.layout.root] = int(told["block"])
        return block

    def block(self, site: Site) -> int | None:
        """Return the first port of a unit, where its agent has told; only a claim begins another agent."""
        return self._blocks.get((site.access.address, site.layout.root))

    def slot(self, run: Run, node: NodeName) -> Site:
        """Return the unit of a slot on a node of the run."""
        access = self.environment(run).index.nodes[node].access
        blocks = ports.narrow() if self._local else ports.wide()
        return self._site(run, node, Unit.SLOT, access, blocks, self._leases(run.fleet, node))

    def head(self, run: Run) -> Site:
        """Return the unit of the run's head."""
        return self.head_on(run, run.head)

    def head_on(self, run: Run, where: NodeName | None) -> Site:
        """Return the unit of a head on a node of the run, or on the machine that the inventory names for heads."""
        access = self.environment(run).index.nodes[where].access if where is not None else run.fleet.head
        if access is None:
            raise LookupError(f"run `{run.id}` has no place for its head")
        blocks = ports.narrow() if self._local else ports.heads()
        return self._site(run, where or access.address, Unit.HEAD, access, blocks, ())

    def _leases(self, fleet: Inventory, node: NodeName) -> tuple[str, ...]:
        """A machine has one lease, whatever an inventory calls it; a local node is a thing of this home alone."""
        if not self._local:
            return leases(fleet)
        suffix = f".{sha256(str(self.home).encode()).hexdigest()[:8]}.{node}"
        return (fleet.lease_path + suffix, FALLBACK_LEASE + suffix)

    def _site(
        self, run: Run, name: str, unit: Unit, access: Access, blocks: ports.Blocks, leases: tuple[str, ...]
    ) -> Site:
        place = layout.place(name, unit)
        lay = layout.local(str(self.home), run.id, place) if self._local else layout.remote(run.id, place)
        return Site(
            name=name,
            unit=unit,
            shell=self._shell,
            access=access,
            layout=lay,
            blocks=blocks,
            leases=leases,
            shared=self._local,
            python=access.python or (sys.executable if self._local else "python3"),
            kept=self.looks,
        )
