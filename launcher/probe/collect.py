"""One question to a node and what its answer says: which probes are run there, and the facts that they show.

The node's part is `launcher/runtime/facts.py`; `call` sends it along with the question, so that nothing has to be on
the node, and nothing stays there.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from launcher.core.model.inventory import GpuDriver, Node
from launcher.probe import imex, nvidia_smi, resources, system, xid
from launcher.probe.answer import Answers, Unknown, read_answers
from launcher.probe.imex import ImexDomain, ImexFiles
from launcher.probe.nvidia_smi import Driver
from launcher.probe.resources import IbPort, OpenFiles, OwnName, Process, Space
from launcher.probe.system import Host, Interpreter, Logout
from launcher.probe.xid import Xid

PATHS = ("/", "/tmp", "~")  # noqa: S108 -- looked at, not written to
"""Where room is looked for on every node; a run adds its own folders."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108 -- looked at, not written to
SYSTEM_PYTHON = "python3"
QUICK = 5.0
"""Seconds for what a healthy node answers in a hundredth."""

SLOWEST = nvidia_smi.TIMEOUT + 2.0
"""Seconds in which a node has answered all, hung programs included; a caller adds its own for the way there."""

IMEX = ("host", "addresses", "sudo", "imex_unit", "imex_state", "imex_domain", "imex_files")
"""The probes that tell of IMEX alone."""

NO_PYTHON = 97
"""The exit status of the question where no interpreter can run it."""

# The shell of a login may be any: one line, without what csh would expand.
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
    """What is known of one node; each part is Unknown where it could not be seen.

    `clock` is how far the node's clock is ahead of ours (s). `imex_active` None: no such service is installed.
    """

    host: Host | Unknown
    clock: float | Unknown
    python: Interpreter | Unknown
    spaces: tuple[Space | Unknown, ...]
    shared_memory: Space | Unknown
    open_files: OpenFiles | Unknown
    own_name: OwnName | Unknown
    addresses: tuple[str, ...] | Unknown
    ports: frozenset[int] | Unknown
    processes: tuple[Process, ...] | Unknown
    lease: str | Unknown | None
    logout: Logout | Unknown
    sudo: bool | Unknown
    driver: Driver | Unknown
    imex_active: bool | Unknown | None
    imex_ready: bool | Unknown
    imex_domain: ImexDomain | Unknown
    imex_files: ImexFiles | Unknown
    xids: tuple[Xid, ...] | Unknown
    infiniband: tuple[IbPort, ...] | Unknown


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A command for a node's shell and what it reads."""

    argv: tuple[str, ...]
    stdin: bytes
    timeout: float


def call(
    script: bytes,
    node: Node,
    *,
    paths: Sequence[str] = (),
    leases: Sequence[str] = (),
    only: Collection[str] | None = None,
) -> Call:
    """Return how to ask a node everything in one round trip; `script` is the content of `runtime/facts.py`.

    `paths` are folders of the run to look at besides the usual ones, `leases` where a lease of the node may be; `only`
    names the probes that are wanted. The script runs on whatever Python there is; the exit status is NO_PYTHON where
    there is none.
    """
    asked = probes(node, paths=paths, leases=leases)
    wanted = {name: probe for name, probe in asked.items() if only is None or name in only}
    return ask(script, node, wanted)


def ask(script: bytes, node: Node, wanted: Mapping[str, Mapping[str, object]]) -> Call:
    """Return how to ask a node just these probes."""
    request = json.dumps({"probes": wanted}).encode()
    stdin = str(len(script)).encode() + b"\n" + script + request
    return Call(argv=("sh", "-c", _FIND, "sh", _LOADER, *_pythons(node)), stdin=stdin, timeout=SLOWEST)


def _pythons(node: Node) -> tuple[str, ...]:
    """Return what to run the script on, the system's own first: the given one may lie on a disk that hangs."""
    given = node.access.python
    return (SYSTEM_PYTHON, "python", *((given,) if given not in (None, SYSTEM_PYTHON, "python") else ()))


def probes(node: Node, *, paths: Sequence[str] = (), leases: Sequence[str] = ()) -> Mapping[str, Mapping[str, object]]:
    """Return the probes for a node, by name, in the form of `runtime/facts.py`."""
    found: dict[str, Mapping[str, object]] = {
        "host": builtin("host"),
        "date": _command(system.DATE_COMMAND, QUICK),
        "python": _command((node.access.python or SYSTEM_PYTHON, "-c", system.PYTHON_CODE), 10.0),
        "open_files": builtin("limits"),
        "own_name": builtin("own_name", timeout=10.0),
        "addresses": _command(system.ADDRESSES_COMMAND, QUICK),
        "ports": builtin("ports"),
        "processes": builtin("processes", timeout=10.0),
        "lease": builtin("lease", *leases),
        "logind": _command(system.LOGIND_COMMAND, QUICK),
        "sudo": _command(system.SUDO_COMMAND, QUICK),
        "infiniband": builtin("infiniband"),
        **{space(path): builtin("space", path) for path in (*PATHS, *paths, SHARED_MEMORY)},
    }
    return found if node.gpu_driver is GpuDriver.NONE else {**found, **_gpu_probes()}


def space(path: str) -> str:
    """Return the name of the probe of what is free at a path."""
    return f"space {path}"


def _gpu_probes() -> Mapping[str, Mapping[str, object]]:
    log = {"timeout": xid.TIMEOUT, "limit": xid.LIMIT, "keep": list(xid.KEEP)}
    return {
        "nvidia_smi": {**_command(nvidia_smi.COMMAND, nvidia_smi.TIMEOUT), "limit": nvidia_smi.LIMIT},
        "imex_unit": _command(system.UNITS_COMMAND, QUICK),
        "imex_state": _command(imex.STATE_COMMAND, imex.TIMEOUT),
        "imex_domain": _command(imex.DOMAIN_COMMAND, imex.TIMEOUT),
        "imex_files": builtin("imex_files", imex.FOLDER, imex.CHANNEL),
        "journal": {"argv": list(xid.JOURNAL_COMMAND), **log},
        "dmesg": {"argv": list(xid.DMESG_COMMAND), **log},
    }


def _command(argv: Sequence[str], timeout: float) -> Mapping[str, object]:
    return {"argv": list(argv), "timeout": timeout}


def builtin(name: str, *args: str, timeout: float = QUICK) -> Mapping[str, object]:
    """Return a probe that the script itself knows."""
    return {"builtin": name, "args": list(args), "timeout": timeout}


def no_python(node: Node) -> Unknown:
    """Return what is known of a node where no interpreter can run the question."""
    tried = ", ".join(f"`{python}`" for python in _pythons(node))
    return Unknown(why=f"no Python 3.6 or later is found there (tried {tried})", missing=True)


def read(
    output: bytes, node: Node, *, now: float, asked: float | None = None, paths: Sequence[str] = ()
) -> Facts | Unknown:
    """Return the facts in what a node printed; `now` is our wall-clock time when it had arrived, `asked` when we began
    to ask (s)."""
    answers = read_answers(output)
    return answers if isinstance(answers, Unknown) else facts(answers, node, now=now, asked=asked, paths=paths)


def facts(answers: Answers, node: Node, *, now: float, asked: float | None = None, paths: Sequence[str] = ()) -> Facts:
    """Return the facts that the probes of a node show."""
    ask = answers.get
    busy = max((ran.elapsed + ran.age for ran in answers.values()), default=0.0)
    slack = 0.0 if asked is None else max(0.0, now - asked - busy)
    return Facts(
        host=system.read_host(ask("host")),
        clock=system.read_clock(ask("date"), now, slack),
        python=system.read_python(ask("python"), node.access.python or SYSTEM_PYTHON),
        spaces=tuple(resources.read_space(ask(space(path)), path) for path in (*PATHS, *paths)),
        shared_memory=resources.read_space(ask(space(SHARED_MEMORY)), SHARED_MEMORY),
        open_files=resources.read_open_files(ask("open_files")),
        own_name=resources.read_own_name(ask("own_name")),
        addresses=system.read_addresses(ask("addresses")),
        ports=resources.read_ports(ask("ports")),
        processes=resources.read_processes(ask("processes")),
        lease=resources.read_lease(ask("lease")),
        logout=system.read_logout(ask("logind")),
        sudo=system.read_sudo(ask("sudo")),
        driver=nvidia_smi.read_driver(ask("nvidia_smi")),
        imex_active=system.read_imex_unit(ask("imex_unit")),
        imex_ready=imex.read_ready(ask("imex_state")),
        imex_domain=imex.read_domain(ask("imex_domain")),
        imex_files=imex.read_files(ask("imex_files")),
        xids=_xids(answers),
        infiniband=resources.read_infiniband(ask("infiniband")),
    )


def _xids(answers: Answers) -> tuple[Xid, ...] | Unknown:
    """The journal where it shows the kernel log, else the kernel's own buffer, whose oldest lines may be gone."""
    journal = xid.read_xids(answers.get("journal"), "`journalctl`")
    if not isinstance(journal, Unknown):
        return journal
    found = xid.read_xids(answers.get("dmesg"), "`dmesg`")
    return Unknown(why=f"{journal.why}; {found.why}") if isinstance(found, Unknown) else found
