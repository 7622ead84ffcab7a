"""The agents of runs on the machines of one inventory.

Their clients, ports and files.
"""

import sys
from hashlib import sha256
from pathlib import Path

from launcher.core.model.actions import Unit
from launcher.core.model.inventory import Access, Inventory
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Run, RunId
from launcher.errors import RemoteError
from launcher.ports import Shell
from launcher.runtime.protocol import Reply
from launcher.setup import layout, ports
from launcher.setup.environ import RunEnvironment
from launcher.transport.agent.client import AgentClient
from launcher.transport.agent.poller import Poller
from launcher.transport.upload.bundle import Files

FALLBACK_LEASE = "/tmp/.nvlaunch-lease"  # noqa: S108 - a known place that anybody may lock is the point

CONNECTIONS = 100
"""Connections that are kept to machines of a run, besides one for each rack."""


def leases(fleet: Inventory) -> tuple[str, ...]:
    """Return the paths of a machine's lease: the second counts where not everybody may make the first."""
    return (fleet.lease_path, FALLBACK_LEASE)


def most_connections(fleet: Inventory) -> int:
    """Return to how many machines of an inventory connections are kept: those of a small run stay open."""
    return CONNECTIONS + len({node.rack for node in fleet.nodes})


class Addresses:
    """Finds the agents of runs, and remembers what they and their nodes were given.

    `environment` holds what is computed once for a run, so that nothing is computed for each node from all others.
    """

    def __init__(self, home: Path, fleet: Inventory, shell: Shell) -> None:
        self.home = home
        self.poller = Poller(shell, most_connections(fleet))
        self._local = fleet.capabilities.this_machine
        self._shell = shell
        self._blocks: dict[tuple[str, str], int] = {}
        self._environments: dict[RunId, tuple[Run, RunEnvironment]] = {}
        self._placed: dict[tuple[str, str], Files] = {}

    def environment(self, run: Run) -> RunEnvironment:
        """Return the index and the variables of a run, computed once for its placement."""
        known = self._environments.get(run.id)
        if known is None or not _has_same_placement(known[0], run):
            known = self._environments[run.id] = (run, RunEnvironment(run))
        return known[1]

    def put(self, client: AgentClient, files: Files, remembered: Files) -> None:
        """Write files below the folder of a unit.

        Those of the second kind are remembered for `ensure`.
        """
        client.put({**files, **remembered})
        self._placed[client.access.address, client.layout.root] = dict(remembered)

    def ensure(self, client: AgentClient, files: Files) -> None:
        """Write files below the folder of a unit, unless this process did before."""
        placed = self._placed.setdefault((client.access.address, client.layout.root), {})
        missing = {name: file for name, file in files.items() if placed.get(name) != file}
        if missing:
            client.put(missing)
            placed.update(missing)

    def note_block(self, client: AgentClient, reply: Reply) -> int:
        """Remember the first port of an agent, which it keeps while it lives; return it.

        RemoteError where the reply has none that an agent may take.
        """
        block = reply.get("block", 0)
        if not client.blocks.has(block):
            raise RemoteError(f"odd reply: no ports begin at {block}", node=client.name, stage="ports")
        self._blocks[client.access.address, client.layout.root] = block
        return block

    def block(self, client: AgentClient) -> int | None:
        """Return the first port of an agent; None where its agent has not been asked yet."""
        return self._blocks.get((client.access.address, client.layout.root))

    def slot(self, run: Run, node: NodeName) -> AgentClient:
        """Return the client of the agent on a node of the run."""
        access = self.environment(run).index.nodes[node].access
        blocks = ports.narrow() if self._local else ports.wide()
        return self._client(run, node, Unit.SLOT, access, blocks, self._leases(run.fleet, node))

    def head(self, run: Run) -> AgentClient:
        """Return the client of the agent of the run's head."""
        return self.head_on(run, run.head)

    def head_on(self, run: Run, where: NodeName | None) -> AgentClient:
        """Return the client of a head's agent on a node.

        With None, on the inventory's machine for heads.
        """
        access = self.environment(run).index.nodes[where].access if where is not None else run.fleet.head
        if access is None:
            raise LookupError(f"run `{run.id}` has no place for its head")
        blocks = ports.narrow() if self._local else ports.heads()
        return self._client(run, where or access.address, Unit.HEAD, access, blocks, ())

    def _leases(self, fleet: Inventory, node: NodeName) -> tuple[str, ...]:
        """Return the paths of a node's lease.

        A machine has one lease, whatever its name in an inventory; local nodes have one each in this home.
        """
        if not self._local:
            return leases(fleet)
        suffix = f".{sha256(str(self.home).encode()).hexdigest()[:8]}.{node}"
        return (fleet.lease_path + suffix, FALLBACK_LEASE + suffix)

    def _client(
        self, run: Run, name: str, unit: Unit, access: Access, blocks: ports.Blocks, leases: tuple[str, ...]
    ) -> AgentClient:
        place = layout.place(name, unit)
        lay = layout.local(str(self.home), run.id, place) if self._local else layout.remote(run.id, place)
        return AgentClient(
            name=name,
            unit=unit,
            shell=self._shell,
            access=access,
            layout=lay,
            blocks=blocks,
            leases=leases,
            shared=self._local,
            python=access.python or (sys.executable if self._local else "python3"),
            connections=self.poller,
        )


def _has_same_placement(one: Run, other: Run) -> bool:
    return one.placement is other.placement and one.task is other.task and one.fleet is other.fleet
