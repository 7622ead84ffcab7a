"""The probes to run on a node, their command, and the facts in its output.

`launcher/runtime/facts.py` runs the probes on the node. `call` sends it with the request, so that nothing needs to be
installed on the node, and nothing is left there.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from launcher.core.model.container import Engine
from launcher.core.model.inventory import GpuDriver, Node
from launcher.probe import containers, folders, imex, limits, resources, slurm, system
from launcher.probe.containers import ContainerHost, EngineInfo
from launcher.probe.folders import FolderTrial, LeasePlace
from launcher.probe.imex import ImexDomain, ImexFiles
from launcher.probe.limits import Limits
from launcher.probe.needs import NOTHING, TaskNeeds
from launcher.probe.nvidia import nvidia_smi, xid
from launcher.probe.nvidia.nvidia_smi import Driver
from launcher.probe.nvidia.xid import Xid
from launcher.probe.resources import HostnameLookup, IbPort, NodeProcess, Space
from launcher.probe.results import ProbeResults, Unknown, read_results
from launcher.probe.slurm import SlurmNode
from launcher.probe.system import HostInfo, Interpreter, Logout
from launcher.runtime.protocol_programs import CommandProbe, FactsRequest, FunctionProbe, ProbeSpec

PATHS = ("/", "/tmp", "~", "~/.nvlaunch")  # noqa: S108 -- looked at, not written to
"""Paths whose free space is checked on every node."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- looked at, not written to
SYSTEM_PYTHON = "python3"
QUICK = 5.0
"""Timeout in seconds for commands that take a hundredth of a second on a healthy node."""

SLOWEST = nvidia_smi.TIMEOUT + 2.0
"""Seconds until a node has answered, including commands that hang; a caller adds the time to connect."""

IMEX = ("host", "addresses", "sudo", "imex_unit", "imex_state", "imex_domain", "imex_files")
"""The probes that IMEX needs."""

NO_PYTHON = 97
"""The exit status of a call if the node has no Python that can run it."""

# The login shell may be of any kind: one line, without characters that csh expands.
_FIND = (
    'code=$1; shift; for p in "$@"; do case $p in "~/"*) p=$HOME/${p#"~/"};; esac; '
    '"$p" -ISc "import sys; sys.exit(sys.version_info < (3, 6))" </dev/null 2>/dev/null && exec "$p" -ISc "$code"; '
    f"done; exit {NO_PYTHON}"
)

_LOADER = (
    "import sys; size = int(sys.stdin.buffer.readline()); "
    "exec(compile(sys.stdin.buffer.read(size), 'facts.py', 'exec'), {'__name__': '__main__'})"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The facts about one node; each is Unknown if it could not be read.

    `clock` is how far the clock of the node is ahead of ours (s). `imex_active` None: the service is not installed.
    `engines` says of each engine of containers why it cannot be used; empty where it can. `engine_infos` and
    `container_host` are asked for tasks that need them.
    """

    host: HostInfo | Unknown
    clock: float | Unknown
    python: Interpreter | Unknown
    spaces: tuple[Space | Unknown, ...]
    shared_memory: Space | Unknown
    folders: tuple[FolderTrial | Unknown, ...]
    lease_place: LeasePlace | Unknown
    limits: Limits | Unknown
    hostname: HostnameLookup | Unknown
    addresses: tuple[str, ...] | Unknown
    ports: frozenset[int] | Unknown
    processes: tuple[NodeProcess, ...] | Unknown
    lease: str | Unknown | None
    slurm: SlurmNode | Unknown
    logout: Logout | Unknown
    sudo: bool | Unknown
    driver: Driver | Unknown
    imex_active: bool | Unknown | None
    imex_ready: bool | Unknown
    imex_domain: ImexDomain | Unknown
    imex_files: ImexFiles | Unknown
    xids: tuple[Xid, ...] | Unknown
    infiniband: tuple[IbPort, ...] | Unknown
    engines: Mapping[Engine, str] = field(default_factory=dict)
    engine_infos: Mapping[Engine, EngineInfo | Unknown] = field(default_factory=dict)
    container_host: ContainerHost | Unknown | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command for the shell of a node, its stdin, and its timeout in seconds."""

    argv: tuple[str, ...]
    stdin: bytes
    timeout: float


def call(
    script: bytes,
    node: Node,
    *,
    needs: TaskNeeds = NOTHING,
    leases: Sequence[str] = (),
    only: Collection[str] | None = None,
) -> Call:
    """Return the call that runs all probes of a node in one round trip.

    `script` is the content of `runtime/facts.py`. `needs` are those of a task, `leases` the possible lease files;
    `only` selects probes by name. The script runs on any Python of the node; the exit status is NO_PYTHON if
    there is none.
    """
    asked = probes(node, needs=needs, leases=leases)
    wanted = {name: probe for name, probe in asked.items() if only is None or name in only}
    return ask(script, node, wanted)


def ask(script: bytes, node: Node, wanted: Mapping[str, ProbeSpec]) -> Call:
    """Return the call that runs the given probes."""
    request: FactsRequest = {"probes": {**wanted}}
    stdin = str(len(script)).encode() + b"\n" + script + json.dumps(request).encode()
    return Call(argv=("sh", "-c", _FIND, "sh", _LOADER, *_pythons(node)), stdin=stdin, timeout=SLOWEST)


def _pythons(node: Node) -> tuple[str, ...]:
    """Return the interpreters to try.

    That of the system is first: the configured one may be on a disk that hangs.
    """
    given = node.access.python
    return (SYSTEM_PYTHON, "python", *((given,) if given not in (None, SYSTEM_PYTHON, "python") else ()))


def probes(node: Node, *, needs: TaskNeeds = NOTHING, leases: Sequence[str] = ()) -> Mapping[str, ProbeSpec]:
    """Return the probes of a node by name, as `runtime/facts.py` reads them."""
    found: dict[str, ProbeSpec] = {
        "host": builtin("host"),
        "date": _command(system.DATE_COMMAND, QUICK),
        "python": _command((node.access.python or SYSTEM_PYTHON, "-c", system.PYTHON_CODE), 10.0),
        "limits": builtin("limits", timeout=10.0),
        "hostname": builtin("own_name", timeout=10.0),
        "addresses": _command(system.ADDRESSES_COMMAND, QUICK),
        "ports": builtin("ports"),
        "processes": builtin("processes", timeout=10.0),
        "lease": builtin("lease", *leases),
        "lease place": builtin("lease_place", *leases, timeout=10.0),
        "slurm": builtin("slurm", timeout=10.0),
        "logind": _command(system.LOGIND_COMMAND, QUICK),
        "sudo": _command(system.SUDO_COMMAND, QUICK),
        "infiniband": builtin("infiniband"),
        **{space_probe(path): builtin("space", path) for path in (*PATHS, SHARED_MEMORY)},
        **{
            f"trial {path}": builtin("trial", path, *wants, timeout=10.0)
            for path, wants in folders.tried(node, needs.folders).items()
        },
    }
    if needs.containers or needs.mounts:
        found |= _container_probes(needs)
    return found if node.gpu_driver is GpuDriver.NONE else {**found, **_gpu_probes()}


def _container_probes(needs: TaskNeeds) -> Mapping[str, ProbeSpec]:
    """Return the probes of a task's needs. An engine is not asked without one: Podman makes folders when it is."""
    infos = containers.INFO_COMMANDS if needs.containers else {}
    engines = containers.ENGINE_COMMANDS if needs.containers else {}
    return {
        **{containers.engine_probe(one): _command(argv, containers.ENGINE_TIMEOUT) for one, argv in engines.items()},
        containers.CONTAINER_HOST: builtin("container_host"),
        **{
            containers.info_probe(one): builtin("engine_info", *argv, timeout=containers.ENGINE_TIMEOUT)
            for one, argv in infos.items()
        },
    }


def space_probe(path: str) -> str:
    """Return the name of the probe for the free space at a path."""
    return f"space {path}"


def _gpu_probes() -> Mapping[str, ProbeSpec]:
    return {
        "nvidia_smi": {**_command(nvidia_smi.COMMAND, nvidia_smi.TIMEOUT), "limit": nvidia_smi.LIMIT},
        "imex_unit": _command(system.UNITS_COMMAND, QUICK),
        "imex_state": _command(imex.STATE_COMMAND, imex.TIMEOUT),
        "imex_domain": _command(imex.DOMAIN_COMMAND, imex.TIMEOUT),
        "imex_files": builtin("imex_files", imex.FOLDER, imex.CHANNEL),
        "journal": _log(xid.JOURNAL_COMMAND),
        "dmesg": _log(xid.DMESG_COMMAND),
    }


def _command(argv: Sequence[str], timeout: float) -> CommandProbe:
    return {"argv": list(argv), "timeout": timeout}


def _log(argv: Sequence[str]) -> CommandProbe:
    return {**_command(argv, xid.TIMEOUT), "limit": xid.LIMIT, "keep": list(xid.KEEP)}


def builtin(name: str, *args: str, timeout: float = QUICK) -> FunctionProbe:
    """Return a probe that is a function of the script."""
    return {"builtin": name, "args": list(args), "timeout": timeout}


def no_python(node: Node) -> Unknown:
    """Return the Unknown of a node without a Python that can run the call."""
    tried = ", ".join(f"`{python}`" for python in _pythons(node))
    return Unknown(why=f"no Python 3.6 or later found on the node (tried {tried})", missing=True)


def read_facts(
    output: bytes, node: Node, *, now: float, asked: float | None = None, needs: TaskNeeds = NOTHING
) -> Facts | Unknown:
    """Return the facts in the output of a node.

    `asked` and `now` are our wall-clock times (s) when the call was sent and when its output arrived.
    """
    results = read_results(output)
    return results if isinstance(results, Unknown) else parse_facts(results, node, now=now, asked=asked, needs=needs)


def parse_facts(
    results: ProbeResults, node: Node, *, now: float, asked: float | None = None, needs: TaskNeeds = NOTHING
) -> Facts:
    """Return the facts in the results of the probes of a node.

    Times as in `read_facts`.
    """
    ask = results.get
    busy = max((result.elapsed + result.age for result in results.values()), default=0.0)
    slack = 0.0 if asked is None else max(0.0, now - asked - busy)
    return Facts(
        host=system.read_host(ask("host")),
        clock=system.read_clock(ask("date"), now, slack),
        python=system.read_python(ask("python"), node.access.python or SYSTEM_PYTHON),
        spaces=tuple(resources.read_space(ask(space_probe(path)), path) for path in PATHS),
        folders=tuple(folders.read_trial(ask(f"trial {path}"), path) for path in folders.tried(node, needs.folders)),
        lease_place=folders.read_lease_place(ask("lease place")),
        shared_memory=resources.read_space(ask(space_probe(SHARED_MEMORY)), SHARED_MEMORY),
        limits=limits.read_limits(ask("limits")),
        hostname=resources.read_hostname(ask("hostname")),
        addresses=system.read_addresses(ask("addresses")),
        ports=resources.read_ports(ask("ports")),
        processes=resources.read_processes(ask("processes")),
        lease=resources.read_lease(ask("lease")),
        slurm=slurm.read_slurm(ask("slurm")),
        logout=system.read_logout(ask("logind")),
        sudo=system.read_sudo(ask("sudo")),
        driver=nvidia_smi.read_driver(ask("nvidia_smi")),
        imex_active=system.read_imex_unit(ask("imex_unit")),
        imex_ready=imex.read_ready(ask("imex_state")),
        imex_domain=imex.read_domain(ask("imex_domain")),
        imex_files=imex.read_files(ask("imex_files")),
        xids=_xids(results),
        infiniband=resources.read_infiniband(ask("infiniband")),
        engines=containers.read_engines(results),
        engine_infos=containers.read_infos(results),
        container_host=containers.read_container_host(host) if (host := ask(containers.CONTAINER_HOST)) else None,
    )


def _xids(results: ProbeResults) -> tuple[Xid, ...] | Unknown:
    """Return the errors of the journal.

    Else those of the kernel's buffer, which may have lost its oldest lines.
    """
    journal = xid.read_xids(results.get("journal"), "`journalctl`")
    if not isinstance(journal, Unknown):
        return journal
    found = xid.read_xids(results.get("dmesg"), "`dmesg`")
    return Unknown(why=f"{journal.why}; {found.why}") if isinstance(found, Unknown) else found
