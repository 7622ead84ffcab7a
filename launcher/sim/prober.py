"""The `Prober` port over an imaginary fleet.

Its nodes are well, but for those that are silent from the start.
"""

from collections.abc import Mapping, Sequence
from functools import cache
from uuid import NAMESPACE_OID, uuid5

from launcher.core.model.container import Engine
from launcher.core.model.inventory import Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.simulation import FaultKind, SimSettings
from launcher.ports import Listener
from launcher.probe.containers import ContainerHost, Fuse
from launcher.probe.folders import MEMORY, RUNS, SCRATCH, FolderTrial, LeasePlace
from launcher.probe.imex import DomainState, ImexDomain, ImexFiles, Peer, PeerLink
from launcher.probe.limits import Limits, UserLimit
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.node_facts import PATHS, Facts
from launcher.probe.nvidia.fabric import Fabric, FabricState
from launcher.probe.nvidia.nvidia_smi import Driver, Gpu, Recovery
from launcher.probe.resources import HostnameLookup, Space
from launcher.probe.results import Unknown
from launcher.probe.slurm import SlurmNode
from launcher.probe.system import HostInfo, Interpreter, Logout

_TIB = 1024**4
_CLIQUE = 32766
_NO_LIMIT = UserLimit(soft=-1, hard=-1)


class SimProber:
    """Makes facts up.

    Faults count from the first action of a run: before it, those `at: 0` are there already.
    """

    def __init__(self, settings: SimSettings) -> None:
        self._settings = settings

    def probe(
        self, nodes: Sequence[Node], listener: Listener, needs: TaskNeeds = NOTHING
    ) -> Mapping[NodeName, Facts | Unknown]:
        """Return what is known of each node."""
        del needs  # imaginary nodes have all of them
        listener.asking([node.name for node in nodes])
        answers: dict[NodeName, Facts | Unknown] = {}
        unreachable = self._unreachable()
        for node in nodes:
            silent = node.name in unreachable
            answers[node.name] = Unknown(why="no answer in 10 s", unreachable=True) if silent else _facts(node)
            listener.heard(node.name, answered=not silent)
        return answers

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def _unreachable(self) -> frozenset[NodeName]:
        """Return the nodes that do not answer from the beginning."""
        kinds = (FaultKind.POWER_CUT, FaultKind.LINK_DOWN, FaultKind.SSH_DOWN)
        return frozenset(fault.node for fault in self._settings.faults if fault.fault in kinds and fault.at <= 0)


def _facts(node: Node) -> Facts:
    address = node.access.address
    return Facts(
        host=HostInfo(
            hostname=node.name, machine="aarch64", kernel="6.8.0", boot_id=node.name, uptime=1e6, user="sim", uid=0
        ),
        clock=0.0,
        python=Interpreter(version=(3, 12, 0), executable="python3", machine="aarch64", ray="2.60.0"),
        spaces=tuple(map(_space, PATHS)),
        folders=tuple(FolderTrial(path=path, at=path) for path in (RUNS, SCRATCH, MEMORY)),
        lease_place=LeasePlace(usable="imaginary"),
        shared_memory=_space("/dev/shm"),  # noqa: S108 -- imaginary
        limits=Limits(open_files=_NO_LIMIT, locked_memory=_NO_LIMIT, processes=_NO_LIMIT),
        hostname=HostnameLookup(name=node.name, seconds=0.0, addresses=(address,)),
        addresses=(address,),
        ports=frozenset(),
        processes=(),
        lease=None,
        slurm=SlurmNode(),
        logout=Logout(kill_processes=False, remove_ipc=False, linger=False),
        sudo=True,
        driver=Driver(version="580.95.05", gpus=_gpus(node)),
        imex_active=True,
        imex_ready=True,
        imex_domain=ImexDomain(
            state=DomainState.UP,
            peers=(Peer(index=0, names=(address,), ready=True, state="READY", links={0: PeerLink.CONNECTED}),),
        ),
        imex_files=ImexFiles(nodes=None, nodes_hash=None, config_hash=None, channel=True, usable=True),
        xids=(),
        infiniband=(),
        engines=dict.fromkeys(Engine, ""),
        container_host=ContainerHost(
            toolkit=True, cdi=("imaginary",), fuse=Fuse(device=True, program=True, allow_other=True)
        ),
    )


@cache
def _space(path: str) -> Space:
    return Space(path=path, at=path, bytes=_TIB, free=_TIB, inodes=0, free_inodes=0, writable=True, read_only=False)


def _gpus(node: Node) -> tuple[Gpu, ...]:
    fabric = Fabric(
        state=FabricState.COMPLETED,
        said="Completed",
        cluster_uuid=_uuid(node.domain or node.rack),
        clique_id=_CLIQUE,
    )
    name = f"NVIDIA {node.accelerator}" if node.accelerator else None
    return tuple(
        Gpu(bus=f"{at:04x}:01:00", name=name, used=0, recovery=Recovery.NONE, fabric=fabric, memory_faults=())
        for at in range(node.gpus)
    )


@cache
def _uuid(domain: str) -> str:
    return str(uuid5(NAMESPACE_OID, domain))
