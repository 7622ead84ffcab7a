"""A node that is well in everything, and parts of one, for tests that spoil something."""

from dataclasses import replace

from launcher.core.model.container import Engine
from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.probe.containers import ContainerHost, EngineInfo, Fuse
from launcher.probe.folders import FolderTrial, LeasePlace
from launcher.probe.imex import DomainState, ImexDomain, ImexFiles, Peer, PeerLink
from launcher.probe.limits import GroupLimit, Limits, UserLimit
from launcher.probe.node_facts import Facts
from launcher.probe.nvidia.fabric import Fabric, FabricState
from launcher.probe.nvidia.nvidia_smi import Driver, Gpu, Recovery
from launcher.probe.resources import HostnameLookup, IbPort, Space
from launcher.probe.results import Unknown
from launcher.probe.slurm import SlurmNode
from launcher.probe.system import HostInfo, Interpreter, Logout

GIB = 1024**3
UUID = "3f5a2c10-9d4e-4b7a-8c21-0e6f7a8b9c0d"
DOMAIN = f"{UUID}.32766"
HIDDEN = Unknown(why="it was not asked")
HUNG = Unknown(why="`nvidia-smi` did not answer within 20 s", hung=True)
MISSING = Unknown(why="`nvidia-imex-ctl -q` not found", missing=True)
HEALTHY = Fabric(
    state=FabricState.COMPLETED,
    said="Completed",
    status="Success",
    cluster_uuid=UUID,
    clique_id=32766,
    summary="Healthy",
)


def gpu(at: int) -> Gpu:
    return Gpu(
        bus=f"00{at:02x}:01:00",
        name="NVIDIA GB300",
        memory=284208,
        used=0,
        recovery=Recovery.NONE,
        fabric=HEALTHY,
        memory_faults=(),
    )


DRIVER = Driver(version="580.173.02", gpus=tuple(gpu(at) for at in (8, 9, 24, 25)))


def space(path: str = "/", **changed: object) -> Space:
    base = Space(
        path=path,
        at=path,
        bytes=1000 * GIB,
        free=500 * GIB,
        inodes=10**8,
        free_inodes=10**7,
        writable=True,
        read_only=False,
    )
    return replace(base, **changed)


def peers(*rows: str) -> ImexDomain:
    """A domain of three, r07-n01 to r07-n03, each with a row of marks."""
    marks = [dict(enumerate(PeerLink(mark) for mark in row.split())) for row in rows]
    return ImexDomain(
        state=DomainState.UP,
        peers=tuple(
            Peer(index=at, names=(f"10.0.7.{at + 1}",), ready=True, state="READY", links=links)
            for at, links in enumerate(marks)
        ),
    )


FACTS = Facts(
    host=HostInfo(
        hostname="r07-n01",
        machine="aarch64",
        kernel="6.8.0-nvidia-64k",
        boot_id="b",
        uptime=9000.0,
        user="ubuntu",
        uid=1001,
    ),
    clock=0.1,
    python=Interpreter(version=(3, 12, 3), executable="/opt/ray/bin/python", machine="aarch64", ray="2.60.0"),
    spaces=(space(), space("/tmp"), space("~")),
    shared_memory=space("/dev/shm"),
    folders=tuple(FolderTrial(path=path, at=path) for path in ("~/.nvlaunch/runs", "/tmp", "/dev/shm")),
    lease_place=LeasePlace(usable="/run/lock/nvlaunch"),
    limits=Limits(
        open_files=UserLimit(soft=1024, hard=1048576),
        locked_memory=UserLimit(soft=-1, hard=-1),
        processes=UserLimit(soft=-1, hard=500_000),
        groups=(GroupLimit(name="/user.slice/user-1001.slice", limit=300_000, used=100),),
        threads=200,
        cores=144,
    ),
    hostname=HostnameLookup(name="r07-n01", seconds=0.001, addresses=("10.0.7.1",)),
    addresses=("10.0.7.1", "192.168.3.4"),
    ports=frozenset({22, 9100}),
    processes=(),
    lease=None,
    slurm=SlurmNode(),
    logout=Logout(kill_processes=False, remove_ipc=False, linger=False),
    sudo=True,
    driver=DRIVER,
    imex_active=True,
    imex_ready=True,
    imex_domain=peers("C C C", "C C C", "C C C"),
    imex_files=ImexFiles(
        nodes=("10.0.7.1", "10.0.7.2", "10.0.7.3"),
        nodes_hash="aa" * 32,
        config_hash="bb" * 32,
        channel=True,
        usable=True,
    ),
    xids=(),
    engines={Engine.DOCKER: "", Engine.PODMAN: "`podman` not found"},
    engine_infos={
        Engine.DOCKER: EngineInfo(
            version="28.1.1", root="/var/lib/docker", runtimes=("nvidia", "runc"), space=space("/var/lib/docker")
        )
    },
    container_host=ContainerHost(
        toolkit=True,
        cdi=("/etc/cdi/nvidia.yaml",),
        logins=("registry.site",),
        fuse=Fuse(device=True, program=True, allow_other=True),
    ),
    infiniband=(IbPort(device="mlx5_0", port="1", state="4: ACTIVE", rate="800 Gb/sec (4X XDR)"),),
)
NODE = Node(
    name=NodeName("r07-n01"),
    rack=RackName("r07"),
    access=Access(address="10.0.7.1", python="/opt/ray/bin/python"),
    domain=DOMAIN,
    accelerator="GB300",
)
