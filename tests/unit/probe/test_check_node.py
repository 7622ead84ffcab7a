"""Checks of the facts of one node."""

from collections.abc import Callable
from dataclasses import replace

import pytest

from launcher.core.model.container import Engine
from launcher.core.model.inventory import Access, GpuDriver, Node
from launcher.probe import check_containers
from launcher.probe.check_node import GPU_FACTS, check_node
from launcher.probe.containers import EngineInfo
from launcher.probe.findings import CheckResult, Fact, Finding
from launcher.probe.folders import FailedStep, FolderTrial, LeasePlace
from launcher.probe.imex import DomainState, ImexDomain
from launcher.probe.limits import GroupLimit, Limits, UserLimit
from launcher.probe.needs import ContainerNeed, TaskNeeds
from launcher.probe.node_facts import Facts
from launcher.probe.nvidia.fabric import Fabric, FabricState
from launcher.probe.nvidia.nvidia_smi import Driver, GpuProcess, MemoryFault, MemoryRemedy, Recovery
from launcher.probe.nvidia.xid import parse_xids
from launcher.probe.resources import HostnameLookup, IbPort, NodeProcess
from launcher.probe.results import Unknown
from launcher.probe.slurm import SlurmNode
from launcher.probe.system import Logout
from tests.facts import DOMAIN, DRIVER, FACTS, GIB, HEALTHY, HIDDEN, HUNG, MISSING, NODE, peers, space

NEEDS = TaskNeeds(
    containers=(ContainerNeed(engine=Engine.DOCKER, image="registry.site/box:1", gpus=True),), mounts=True
)


def found(fact: Fact, facts: Facts, node: Node = NODE) -> Finding:
    findings = check_node(facts, node, ports=frozenset({6400, 6401}), needs=NEEDS)
    return next(finding for finding in findings if finding.fact is fact)


def test_healthy_node_has_a_good_finding_for_each_fact_in_order() -> None:
    findings = check_node(FACTS, NODE, needs=NEEDS)
    assert [(finding.fact, finding.message) for finding in findings if finding.result is not CheckResult.GOOD] == []
    assert [finding.fact for finding in findings] == [fact for fact in Fact if fact is not Fact.REACHABLE]


def test_unknown_facts_are_neither_good_nor_bad() -> None:
    blind = replace(FACTS, **{**dict.fromkeys(FACTS.__slots__, HIDDEN), "spaces": (HIDDEN,), "folders": (HIDDEN,)})
    assert {finding.result for finding in check_node(blind, NODE)} == {CheckResult.CANNOT_TELL}


def test_gpu_facts_do_not_apply_without_a_gpu_driver() -> None:
    blind = replace(FACTS, driver=MISSING, imex_active=None, imex_ready=MISSING, xids=HIDDEN)
    findings = check_node(blind, replace(NODE, gpu_driver=GpuDriver.NONE, domain="r07"))
    assert {f.fact for f in findings if f.result is CheckResult.NOT_APPLICABLE} == set(GPU_FACTS)


def test_node_with_an_unexpected_answer_is_not_usable() -> None:
    (only,) = check_node(Unknown(why="the node sent an unexpected answer: bash: python3: not found"), NODE)
    assert (only.result, only.stops) == (CheckResult.CANNOT_TELL, True)
    assert "python3: not found" in only.message


def docker(facts: Facts) -> EngineInfo:
    told = facts.engine_infos[Engine.DOCKER]
    assert isinstance(told, EngineInfo)
    return told


def on_host(**changed: object) -> Callable[[Facts], Facts]:
    """What the node has for containers changed."""
    return lambda facts: replace(facts, container_host=replace(facts.container_host, **changed))


def with_fuse(**changed: bool) -> Callable[[Facts], Facts]:
    """FUSE of the node changed."""
    return lambda facts: on_host(fuse=replace(facts.container_host.fuse, **changed))(facts)


def with_gpu(**changed: object) -> Callable[[Facts], Facts]:
    """The first GPU of the node changed."""

    def change(facts: Facts) -> Facts:
        first = replace(DRIVER.gpus[0], **changed)
        return replace(facts, driver=replace(DRIVER, gpus=(first, *DRIVER.gpus[1:])))

    return change


def with_all(**changed: object) -> Callable[[Facts], Facts]:
    """All GPUs of the node changed."""
    gpus = tuple(replace(one, **changed) for one in DRIVER.gpus)
    return lambda facts: replace(facts, driver=replace(DRIVER, gpus=gpus))


def process(pid: int = 7, **changed: object) -> NodeProcess:
    base = NodeProcess(pid=pid, user="bob", name="ray::IDLE", ray=True, mark=None, agent=None)
    return replace(base, **changed)


def log(*lines: str) -> Callable[[Facts], Facts]:
    return lambda facts: replace(facts, xids=parse_xids("".join(f"[  100.0] NVRM: {line}\n" for line in lines)))


def same(**changed: object) -> Callable[[Facts], Facts]:
    return lambda facts: replace(facts, **changed)


def limits(**changed: object) -> Callable[[Facts], Facts]:
    """Limits of a node of 144 cores that are none, but for these."""
    none = UserLimit(soft=-1, hard=-1)
    base = Limits(open_files=none, locked_memory=none, processes=none, cores=144, threads=200)
    return lambda facts: replace(facts, limits=replace(base, **changed))


def trial(path: str, *failed: tuple[str, str], at: str = "", mount: str = "") -> Callable[[Facts], Facts]:
    """One folder of the node in which these steps failed, each with its errno."""
    steps = tuple(FailedStep(step=step, errno=errno, message="Words of the system") for step, errno in failed)
    one = FolderTrial(path=path, at=at or path, mount=mount, failed=steps)
    return lambda facts: replace(facts, folders=(*facts.folders, one))


def fault(field: str, value: str, remedy: MemoryRemedy) -> Callable[[Facts], Facts]:
    return with_gpu(memory_faults=(MemoryFault(field=field, value=value, remedy=remedy),))


ZEROES = replace(HEALTHY, cluster_uuid="00000000-0000-0000-0000-000000000000", clique_id=0)
JOINING = Fabric(state=FabricState.IN_PROGRESS, said="In Progress")
SICK = replace(HEALTHY, summary="Unhealthy", troubles=("summary: Unhealthy",))
FATAL = "Xid (PCI:0008:01:00): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"

BAD, GOOD, BLIND, NONE = CheckResult.BAD, CheckResult.GOOD, CheckResult.CANNOT_TELL, CheckResult.NOT_APPLICABLE
CASES = {
    "python-of-another-architecture": (
        Fact.HOST,
        same(python=replace(FACTS.python, machine="x86_64")),
        (BAD, True, "built for x86_64, but the machine is aarch64"),
    ),
    "clock-a-little-off": (Fact.CLOCK, same(clock=-5.0), (BAD, False, "5.0 s behind")),
    "clock-an-hour-ahead": (Fact.CLOCK, same(clock=3600.0), (BAD, True, "3600.0 s ahead")),
    "python-too-old": (
        Fact.PYTHON,
        same(python=replace(FACTS.python, version=(3, 9, 18))),
        (BAD, True, "is 3.9.18"),
    ),
    "python-missing": (Fact.PYTHON, same(python=MISSING), (BAD, True, "correct `python:` in the inventory")),
    "python-broken": (
        Fact.PYTHON,
        same(python=Unknown(why="`/opt/ray/bin/python` failed with 126: Exec format error", failed=True)),
        (BAD, True, "Exec format error"),
    ),
    "python-hangs": (Fact.PYTHON, same(python=HUNG), (BLIND, True, "did not answer")),
    "ray-missing": (Fact.RAY, same(python=replace(FACTS.python, ray=None)), (BAD, True, "has no Ray")),
    "ray-too-old": (
        Fact.RAY,
        same(python=replace(FACTS.python, ray="2.9.3")),
        (BAD, True, "2.60 or later"),
    ),
    "ray-newer": (Fact.RAY, same(python=replace(FACTS.python, ray="3.0.0")), (GOOD, False, "3.0.0")),
    "disk-nearly-full": (
        Fact.DISK,
        same(spaces=(space("/tmp", free=30 * GIB),)),
        (BAD, True, "`/tmp` is 97.0% full, with 30 GiB free; Ray stops at 95%, so free 20 GiB of it"),
    ),
    "disk-tiny": (
        Fact.DISK,
        same(spaces=(space("~", bytes=2 * GIB, free=GIB // 2),)),
        (BAD, True, "`~` has 0.5 GiB free, but a run needs 1.0 GiB"),
    ),
    "disk-tiny-and-nearly-empty": (
        Fact.DISK,
        same(spaces=(space("~", bytes=GIB // 2, free=GIB // 2 - 1),)),
        (BAD, True, "`~` has 0.5 GiB free, but a run needs 1.0 GiB"),
    ),
    "no-inodes": (
        Fact.DISK,
        same(spaces=(space("~", free_inodes=3),)),
        (BAD, True, "3 free inodes, but a run needs 10000"),
    ),
    "no-limit-of-inodes": (Fact.DISK, same(spaces=(space("~", inodes=0, free_inodes=0),)), (GOOD, False, "")),
    "folder-full": (
        Fact.FOLDERS,
        trial("~/.nvlaunch/runs", ("write a file", "ENOSPC"), at="/home/u/.nvlaunch"),
        (BAD, True, "cannot write a file in `~/.nvlaunch/runs` (`/home/u/.nvlaunch`): words of the system (ENOSPC)"),
    ),
    "folder-read-only": (
        Fact.FOLDERS,
        trial("~/.nvlaunch/runs", ("create a file", "EROFS")),
        (BAD, True, "(EROFS): the file system is read-only"),
    ),
    "folder-over-quota": (Fact.FOLDERS, trial("/scratch", ("write a file", "EDQUOT")), (BAD, True, "quota is used up")),
    "folder-where-nothing-can-be-executed": (
        Fact.FOLDERS,
        trial("~/.nvlaunch/runs", ("execute", "EACCES"), mount="/home"),
        (BAD, False, "mount `/home`; remount it without `noexec`"),
    ),
    "environment-that-cannot-be-executed": (
        Fact.FOLDERS,
        trial("~/.nvlaunch/env", ("execute", "EACCES"), mount="/home"),
        (BAD, True, "set `python:` to an interpreter elsewhere"),
    ),
    "no-sockets": (Fact.FOLDERS, trial("/tmp", ("socket", "EPERM")), (BAD, True, "no socket can be made in `/tmp`")),
    "memory-that-is-closed": (Fact.FOLDERS, trial("/dev/shm", ("create a file", "EACCES")), (BAD, False, "/dev/shm")),
    "memory-that-is-full": (Fact.FOLDERS, trial("/dev/shm", ("write a file", "ENOSPC")), (BAD, True, "/dev/shm")),
    "no-place-for-a-lease": (
        Fact.FOLDERS,
        same(
            lease_place=LeasePlace(
                usable=None,
                failed=(FailedStep(step="open", errno="ENOSPC", message="No space left", path="/run/lock/nvlaunch"),),
            )
        ),
        (BAD, True, "no lease can be taken: `/run/lock/nvlaunch`: no space left (ENOSPC)"),
    ),
    "folder-that-hangs": (Fact.FOLDERS, same(folders=(HUNG,)), (BLIND, True, "not answer within 20 s")),
    "lease-place-unknown": (Fact.FOLDERS, same(lease_place=HIDDEN), (BLIND, True, "not asked")),
    "disk-hangs": (Fact.DISK, same(spaces=(space(), HUNG)), (BLIND, True, "not answer within 20 s")),
    "little-shared-memory": (Fact.SHARED_MEMORY, same(shared_memory=space(free=GIB)), (BAD, False, "on disk")),
    "few-open-files": (
        Fact.OPEN_FILES,
        limits(open_files=UserLimit(soft=1024, hard=4096, source="/etc/security/limits.conf:7")),
        (BAD, False, "limit 4096, but Ray needs 8192; raise it in /etc/security/limits.conf:7"),
    ),
    "few-open-files-of-sshd": (
        Fact.OPEN_FILES,
        limits(open_files=UserLimit(soft=1024, hard=4096, source="sshd")),
        (BAD, False, "`LimitNOFILE=65535` under `[Service]` by `sudo systemctl edit ssh`"),
    ),
    "files-without-limit": (Fact.OPEN_FILES, limits(), (GOOD, False, "no limit")),
    "little-locked-memory": (
        Fact.LOCKED_MEMORY,
        limits(locked_memory=UserLimit(soft=8 << 20, hard=8 << 20)),
        (BAD, False, "limit 8192 KiB, but InfiniBand needs 16 GiB: write `* - memlock unlimited` to /etc/security"),
    ),
    "little-locked-memory-without-infiniband": (
        Fact.LOCKED_MEMORY,
        lambda facts: replace(limits(locked_memory=UserLimit(soft=8, hard=8))(facts), infiniband=()),
        (NONE, False, ""),
    ),
    "little-locked-memory-of-root": (
        Fact.LOCKED_MEMORY,
        limits(locked_memory=UserLimit(soft=8, hard=8), root=True),
        (GOOD, False, ""),
    ),
    "too-few-processes-to-start": (
        Fact.PROCESSES,
        limits(processes=UserLimit(soft=300, hard=300)),
        (BAD, True, "room for 100 more processes and threads (`ulimit -Hu` is 300), but a run needs 688 to start"),
    ),
    "few-processes-for-many-cores": (
        Fact.PROCESSES,
        limits(processes=UserLimit(soft=4096, hard=4096)),
        (BAD, False, "(`ulimit -Hu` is 4096), but 10216 are advised for 144 cores"),
    ),
    "enough-processes-for-few-cores": (
        Fact.PROCESSES,
        limits(processes=UserLimit(soft=4096, hard=4096), cores=16),
        (GOOD, False, "room for 3896"),
    ),
    "processes-of-root-are-not-counted": (
        Fact.PROCESSES,
        limits(processes=UserLimit(soft=10, hard=10), root=True),
        (GOOD, False, "no limit"),
    ),
    "few-tasks-of-a-slice": (
        Fact.PROCESSES,
        limits(
            processes=UserLimit(soft=9000, hard=9000),
            groups=(GroupLimit(name="/user.slice/user-1001.slice", limit=512, used=500),),
            root=True,
        ),
        (
            BAD,
            True,
            "(`pids.max` of `/user.slice/user-1001.slice` is 512), but a run needs 688 to start; `sudo systemctl",
        ),
    ),
    "few-tasks-of-a-container": (
        Fact.PROCESSES,
        limits(groups=(GroupLimit(name="/", limit=200, used=20),)),
        (BAD, True, "raise it for the container"),
    ),
    "own-name-unknown": (
        Fact.HOSTNAME,
        same(hostname=HostnameLookup(name="", seconds=10.0, addresses=())),
        (BAD, False, "`r07-n01` does not resolve (10 s)"),
    ),
    "own-name-slow": (
        Fact.HOSTNAME,
        same(hostname=HostnameLookup(name="r07-n01", seconds=5.0, addresses=("10.0.7.1",))),
        (BAD, False, "resolves in 5 s"),
    ),
    "port-taken": (Fact.PORTS, same(ports=frozenset({22, 6401})), (BAD, True, "6401 in use")),
    "foreign-ray": (Fact.OTHER_RAY, same(processes=(process(),)), (BAD, True, "Ray of `bob` runs on the node (pid 7)")),
    "own-ray-is-not-foreign": (Fact.OTHER_RAY, same(processes=(process(mark="x1:r07-n01:0"),)), (GOOD, False, "")),
    "leftovers": (
        Fact.LEFTOVERS,
        same(processes=(process(mark="x1:r07-n01:0"), process(9, agent="x2:r07-n01"))),
        (BAD, True, "1 leftover process of run `x1`; stop with `kill -9 7`"),
    ),
    "a-live-run-is-no-leftover": (
        Fact.LEFTOVERS,
        same(processes=(process(mark="x1:r07-n01:0:main/3:1"), process(9, ray=False, agent="x1:r07-n01"))),
        (GOOD, False, "x1:r07-n01"),
    ),
    "slurm-is-there": (Fact.SLURM, same(slurm=SlurmNode(daemon=True)), (GOOD, False, "slurmd runs")),
    "slurm-job-of-another": (
        Fact.SLURM,
        same(slurm=SlurmNode(daemon=True, jobs={"17": "bob"})),
        (BAD, True, "on the node: Slurm job 17 of `bob`"),
    ),
    "slurm-job-of-somebody": (Fact.SLURM, same(slurm=SlurmNode(jobs={"17": ""})), (BAD, False, "Slurm job 17")),
    "slurm-job-of-our-own": (Fact.SLURM, same(slurm=SlurmNode(daemon=True, jobs={"17": "ubuntu"})), (GOOD, False, "")),
    "adopted-by-slurm": (
        Fact.SLURM,
        same(slurm=SlurmNode(daemon=True, jobs={"17": "ubuntu"}, adopted="17", installed=8)),
        (BAD, False, "logins become part of Slurm job 17 and see 4 of 8 GPUs: a run ends with that job"),
    ),
    "lease-unknown": (Fact.LEASE, same(lease=HIDDEN), (BLIND, False, "not asked")),
    "lease-held": (Fact.LEASE, same(lease="run `a` (x) of bob"), (GOOD, False, "held by run `a`")),
    "sudo-unknown": (Fact.SUDO, same(sudo=HIDDEN), (BLIND, False, "not asked")),
    "rows-that-cannot-be-remapped": (
        Fact.MEMORY_ERRORS,
        fault("remapped_row_failure", "Yes", MemoryRemedy.REPLACE),
        (BAD, True, "GPU 0008:01:00: `remapped_row_failure: Yes`: the GPU must be replaced"),
    ),
    "rows-to-be-remapped": (
        Fact.MEMORY_ERRORS,
        fault("remapped_row_pending", "Yes", MemoryRemedy.RESET),
        (BAD, False, "`remapped_row_pending: Yes`: the GPU needs a reset"),
    ),
    "memory-errors-of-an-old-driver": (Fact.MEMORY_ERRORS, with_all(memory_faults=None), (BLIND, False, "not report")),
    "logout-kills": (
        Fact.LOGOUT,
        same(logout=Logout(kill_processes=True, remove_ipc=False, linger=False)),
        (BAD, False, "enable-linger"),
    ),
    "logout-lingers": (
        Fact.LOGOUT,
        same(logout=Logout(kill_processes=True, remove_ipc=True, linger=True)),
        (GOOD, False, ""),
    ),
    "logout-of-root": (
        Fact.LOGOUT,
        same(
            host=replace(FACTS.host, uid=0),
            logout=Logout(kill_processes=False, remove_ipc=True, linger=False),
        ),
        (GOOD, False, ""),
    ),
    "sudo-asks": (Fact.SUDO, same(sudo=False), (GOOD, False, "printed")),
    "port-of-infiniband-down": (
        Fact.INFINIBAND,
        same(infiniband=(IbPort(device="mlx5_1", port="1", state="1: DOWN", rate="10 Gb/sec"),)),
        (BAD, False, "mlx5_1"),
    ),
    "no-infiniband": (Fact.INFINIBAND, same(infiniband=()), (NONE, False, "")),
    "driver-hangs": (Fact.DRIVER, same(driver=HUNG), (BLIND, True, "20 s")),
    "driver-broken": (Fact.DRIVER, same(driver=Driver(fault="No devices were found")), (BAD, True, "No devices")),
    "driver-missing": (Fact.DRIVER, same(driver=MISSING), (BLIND, True, "`gpu_driver: none`")),
    "three-gpus": (Fact.GPUS, same(driver=replace(DRIVER, gpus=DRIVER.gpus[:3])), (BAD, True, "3 of 4")),
    "gpu-lost": (Fact.GPUS, with_gpu(lost="GPU is lost"), (BAD, True, "3 of 4 found: GPU 0008:01:00: GPU is lost")),
    "gpus-behind-a-fault": (
        Fact.GPUS,
        same(driver=Driver(fault="Unable to determine the device handle for GPU0000:17:00.0: Unknown Error")),
        (BAD, True, "0 of 4 found: Unable to determine"),
    ),
    "another-accelerator": (
        Fact.GPUS,
        with_all(name="NVIDIA GB200"),
        (BAD, False, "the driver reports `NVIDIA GB200`"),
    ),
    "orphan-holds-memory": (
        Fact.GPU_MEMORY,
        with_gpu(used=117760, processes=(GpuProcess(pid=42, name="engine", used=117700),)),
        (BAD, True, "115.0 GiB (pid 42 engine)"),
    ),
    "memory-of-the-driver-itself": (Fact.GPU_MEMORY, with_gpu(used=700), (GOOD, False, "free")),
    "memory-of-a-live-run": (
        Fact.GPU_MEMORY,
        lambda facts: with_gpu(used=99999)(replace(facts, processes=(process(agent="x1:r07-n01"),))),
        (GOOD, False, "in use by x1:r07-n01"),
    ),
    "containers-without-a-daemon": (
        Fact.CONTAINERS,
        same(engines={Engine.DOCKER: "the daemon of `docker` is not running"}),
        (BAD, True, "the daemon of `docker` is not running"),
    ),
    "containers-without-a-toolkit": (
        Fact.CONTAINERS,
        lambda facts: on_host(toolkit=False)(
            replace(facts, engine_infos={Engine.DOCKER: replace(docker(facts), runtimes=("runc",))})
        ),
        (BAD, True, "install `nvidia-container-toolkit`"),
    ),
    "containers-with-a-runtime-of-nvidia-alone": (Fact.CONTAINERS, on_host(toolkit=False), (GOOD, False, "28.1.1")),
    "containers-with-little-room": (
        Fact.CONTAINERS,
        lambda facts: replace(facts, engine_infos={Engine.DOCKER: replace(docker(facts), space=space(free=12 * GIB))}),
        (BAD, False, "12 GiB free at `/var/lib/docker` for images"),
    ),
    "containers-without-room": (
        Fact.CONTAINERS,
        lambda facts: replace(facts, engine_infos={Engine.DOCKER: replace(docker(facts), space=space(free=GIB // 2))}),
        (BAD, True, "0.5 GiB free at `/var/lib/docker`; `docker system prune`"),
    ),
    "containers-of-a-daemon-elsewhere": (
        Fact.CONTAINERS,
        lambda facts: replace(facts, engine_infos={Engine.DOCKER: replace(docker(facts), space=None)}),
        (BLIND, False, "its folder is not on this node"),
    ),
    "containers-with-hidden-info": (
        Fact.CONTAINERS,
        same(engine_infos={Engine.DOCKER: HUNG}),
        (BLIND, False, "room for images is unknown"),
    ),
    "fuse-without-its-device": (Fact.FUSE, with_fuse(device=False), (BAD, True, "`modprobe fuse`")),
    "fuse-without-its-program": (Fact.FUSE, with_fuse(program=False), (BAD, True, "install the package `fuse3`")),
    "fuse-for-oneself-alone": (Fact.FUSE, with_fuse(allow_other=False), (BAD, True, "`user_allow_other`")),
    "fuse-of-root": (
        Fact.FUSE,
        lambda facts: with_fuse(allow_other=False, program=False)(replace(facts, host=replace(facts.host, uid=0))),
        (GOOD, False, ""),
    ),
    "fuse-unknown": (Fact.FUSE, same(container_host=HIDDEN), (BLIND, False, "")),
    "recovery-due": (
        Fact.RECOVERY,
        with_gpu(recovery=Recovery.DUE, action="Drain and Reset"),
        (BAD, True, "GPU 0008:01:00: Drain and Reset"),
    ),
    "recovery-of-an-old-driver": (Fact.RECOVERY, with_all(recovery=Recovery.UNKNOWN), (BLIND, False, "")),
    "fabric-completed-but-unhealthy": (Fact.FABRIC, with_gpu(fabric=SICK), (BAD, True, "summary: Unhealthy")),
    "fabric-joining-long-after-boot": (Fact.FABRIC, with_gpu(fabric=JOINING), (BAD, True, "In Progress on 1 of 4")),
    "fabric-joining-after-boot": (
        Fact.FABRIC,
        lambda facts: with_gpu(fabric=JOINING)(replace(facts, host=replace(FACTS.host, uptime=40.0))),
        (BLIND, True, "40 s after boot"),
    ),
    "fabric-in-an-unknown-state": (
        Fact.FABRIC,
        with_gpu(fabric=Fabric(state=FabricState.OTHER, said="Dreaming")),
        (BLIND, True, "`Dreaming`"),
    ),
    "fabric-on-some-gpus-only": (
        Fact.FABRIC,
        with_gpu(fabric=Fabric()),
        (BAD, True, "only some GPUs of the tray are in a fabric"),
    ),
    "no-fabric": (Fact.FABRIC, with_all(fabric=Fabric()), (NONE, False, "")),
    "domains-of-a-tray-differ": (
        Fact.DOMAIN,
        with_gpu(fabric=replace(HEALTHY, clique_id=32767)),
        (BAD, True, "report different domains"),
    ),
    "domain-of-zeroes": (Fact.DOMAIN, with_all(fabric=ZEROES), (BAD, True, "no domain beyond the tray")),
    "domain-unproven-by-an-old-driver": (
        Fact.DOMAIN,
        with_all(fabric=replace(HEALTHY, cluster_uuid=None, clique_id=None)),
        (BLIND, False, "is not verified"),
    ),
    "imex-not-installed": (Fact.IMEX, same(imex_active=None, imex_ready=MISSING), (BAD, False, "not installed")),
    "imex-stopped": (Fact.IMEX, same(imex_active=False), (BAD, False, "systemctl start nvidia-imex")),
    "imex-without-channel": (
        Fact.IMEX,
        same(imex_files=replace(FACTS.imex_files, channel=False, usable=False)),
        (BAD, False, "channel0 is missing"),
    ),
    "imex-channel-forbidden": (
        Fact.IMEX,
        same(imex_files=replace(FACTS.imex_files, usable=False)),
        (BAD, False, "cannot be opened by `ubuntu`"),
    ),
    "imex-waiting": (Fact.IMEX, same(imex_ready=False), (BAD, False, "not READY")),
    "imex-domain-hangs": (
        Fact.IMEX,
        same(imex_domain=Unknown(why="`nvidia-imex-ctl -N` did not answer within 10 s", hung=True)),
        (BLIND, False, "is READY, but"),
    ),
    "imex-status-port-closed": (Fact.IMEX, same(imex_domain=peers("C C C", "I I I", "I I I")), (GOOD, False, "all 3")),
    "imex-trouble-of-others": (Fact.IMEX, same(imex_domain=peers("C C C", "C C D", "C D C")), (GOOD, False, "all 3")),
    "imex-peer-gone": (Fact.IMEX, same(imex_domain=peers("C C D", "C C D", "I I I")), (BAD, False, "10.0.7.3")),
    "imex-own-list-differs": (
        Fact.IMEX,
        same(imex_domain=peers("C !M! !M!", "!M! C C", "!M! C C")),
        (BAD, True, "nodes_config.cfg"),
    ),
    "imex-list-of-another-differs": (
        Fact.IMEX,
        same(imex_domain=peers("C C !M!", "C C !M!", "!M! !M! C")),
        (BAD, False, "10.0.7.3"),
    ),
    "imex-not-in-the-list": (
        Fact.IMEX,
        same(imex_domain=ImexDomain(state=DomainState.UP, peers=())),
        (BAD, False, "not in the node list"),
    ),
    "xids-hidden": (Fact.XIDS, same(xids=HIDDEN), (BLIND, False, "`systemd-journal`")),
    "xids-of-programs": (
        Fact.XIDS,
        log("Xid (PCI:0008:01:00): 31, pid=4, name=train, MMU Fault", "Xid (PCI:0008:01:00): 45, pid=4, name=train"),
        (GOOD, False, "GPU memory page fault"),
    ),
    "xid-of-the-node": (
        Fact.XIDS,
        lambda facts: with_gpu(recovery=Recovery.UNKNOWN)(log(FATAL)(facts)),
        (BAD, True, "GPU 0008:01:00: Xid 149, NVLink NETIR error, 148 min ago: replace"),
    ),
    "xid-that-the-driver-has-done-with": (Fact.XIDS, log(FATAL), (BAD, False, "requests no recovery now")),
    "xid-on-a-gpu-that-is-gone": (
        Fact.XIDS,
        log("GPU 0007:01:00.0: GPU has fallen off the bus."),
        (BAD, True, "GPU 0007:01:00: Xid 79"),
    ),
    "rows-remapped": (
        Fact.XIDS,
        log("Xid (PCI:0008:01:00): 63, Row remapping pending"),
        (BAD, False, "needs reset"),
    ),
    "recovery-that-was-asked-for-and-done": (
        Fact.XIDS,
        lambda facts: with_all(recovery=Recovery.UNKNOWN)(
            log(
                "Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
                "Xid (PCI:0008:01:00): 154, GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)",
            )(facts)
        ),
        (GOOD, False, "GPU recovery action changed"),
    ),
    "old-nvlink-twice": (
        Fact.XIDS,
        lambda facts: with_gpu(recovery=Recovery.UNKNOWN)(
            log(*["Xid (PCI:0008:01:00): 74, NVLink: fatal error"] * 2)(facts)
        ),
        (BAD, True, "GPU 0008:01:00: Xid 74, NVLink error, 148 min ago: replace"),
    ),
    "old-nvlink-once": (Fact.XIDS, log("Xid (PCI:0008:01:00): 74, NVLink: fatal error"), (GOOD, False, "")),
}


NEVER_BAD = {Fact.LEASE, Fact.SUDO}
"""Facts that are only reported; they can be unknown, though."""


def test_each_check_can_fail() -> None:
    shown = {(fact, answer) for fact, _, (answer, *_) in CASES.values()}
    for fact in set(Fact) - {Fact.REACHABLE}:
        assert (fact, BLIND if fact in NEVER_BAD else BAD) in shown, fact


@pytest.mark.parametrize(("fact", "change", "expected"), CASES.values(), ids=CASES)
def test_changed_fact_has_this_finding(
    fact: Fact, change: Callable[[Facts], Facts], expected: tuple[CheckResult, bool, str]
) -> None:
    finding = found(fact, change(FACTS))
    answer, stops, words = expected
    assert (finding.result, finding.stops) == (answer, stops), finding
    assert words in finding.message


def test_a_disk_with_several_paths_is_named_once() -> None:
    full = replace(FACTS, spaces=tuple(space(path, free=0, device="7") for path in ("/", "/tmp", "~")))
    assert found(Fact.DISK, full).evidence == ("`/` has 0.0 GiB free, but a run needs 1.0 GiB",)
    apart = replace(FACTS, spaces=tuple(space(path, free=0, device=path) for path in ("/", "~")))
    assert len(found(Fact.DISK, apart).evidence) == 2


def test_a_name_that_is_loopback_on_its_own_node_is_named() -> None:
    looped = replace(FACTS, hostname=HostnameLookup(name="r07-n01", seconds=0.0, addresses=("127.0.1.1",)))
    by_name = replace(NODE, access=replace(NODE.access, address="R07-n01"))
    finding = found(Fact.HOSTNAME, looped, by_name)
    assert (finding.result, finding.stops) == (BAD, False)
    assert "`r07-n01`, its address in the inventory, is 127.0.1.1 on the node itself" in finding.message
    # Others reach it by a number then, which is the same everywhere.
    assert found(Fact.HOSTNAME, looped).result is GOOD


def test_domain_that_differs_from_the_inventory_is_shown_with_both_values() -> None:
    finding = found(Fact.DOMAIN, FACTS, replace(NODE, domain="9a20aaaa-0000-4000-8000-000000000000.32766"))
    assert (finding.result, finding.stops) == (CheckResult.BAD, True)
    assert finding.evidence == ("inventory: 9a20aaaa-0000-4000-8000-000000000000.32766", f"drivers: {DOMAIN}")


@pytest.mark.parametrize("domain", [None, DOMAIN.upper()], ids=["unknown-so-far", "in-capitals"])
def test_domain_that_agrees_with_the_inventory_is_good(domain: str | None) -> None:
    finding = found(Fact.DOMAIN, FACTS, replace(NODE, domain=domain))
    assert (finding.result, finding.message) == (CheckResult.GOOD, DOMAIN)


def test_ray_of_the_system_does_not_matter_without_a_configured_python() -> None:
    node = replace(NODE, access=Access(address="10.0.7.1"))
    facts = replace(FACTS, python=replace(FACTS.python, version=(3, 10, 2), ray=None))
    assert found(Fact.RAY, facts, node).result is CheckResult.NOT_APPLICABLE
    assert found(Fact.PYTHON, facts, node).result is CheckResult.GOOD
    old = replace(facts, python=replace(FACTS.python, version=(3, 9, 2), ray=None))
    told = found(Fact.PYTHON, old, node)
    assert (told.result, told.stops) == (CheckResult.BAD, True)
    assert "set `python:` in the inventory" in told.message


@pytest.mark.parametrize(
    ("host", "words"),
    [
        ({"cdi": ()}, "run/cdi: `sudo nvidia-ctk cdi generate"),
        ({"cdi": (), "toolkit": False}, "then `sudo nvidia-ctk cdi"),
    ],
    ids=["not-described", "without-the-toolkit"],
)
def test_podman_needs_a_description_of_the_gpus_where_there_are_some(host: dict[str, object], words: str) -> None:
    facts = on_host(**host)(replace(FACTS, engines={Engine.PODMAN: ""}, engine_infos={Engine.PODMAN: docker(FACTS)}))
    needs = TaskNeeds(containers=(ContainerNeed(engine=Engine.PODMAN, gpus=True),))
    assert words in check_containers.containers(facts, NODE, needs).message
    for other in (replace(NODE, gpu_driver=GpuDriver.NONE), NODE):
        blind = facts if other is not NODE else replace(facts, driver=MISSING)
        assert check_containers.containers(blind, other, needs).result is GOOD
