"""IMEX on a node that is prepared: observed, decided, and set up."""

from dataclasses import dataclass, replace
from importlib import resources

from launcher.core.model.inventory import GpuDriver, ImexMode, Node
from launcher.core.model.nodeset import NodeName
from launcher.core.model.run import Member, Run
from launcher.core.model.run_index import RunIndex
from launcher.errors import RemoteError
from launcher.probe import node_facts
from launcher.probe.imex import ImexFiles, PeerLink
from launcher.probe.node_facts import Facts
from launcher.probe.results import Unknown
from launcher.setup.imex import (
    READY_TRIES,
    START_S,
    ImexAction,
    ImexDaemon,
    ImexDecision,
    ImexPeers,
    decide,
    operator,
    script,
)
from launcher.transport.agent.client import AgentClient
from launcher.transport.bounded import last_lines

ASK_S = 10.0
WAY_S = 8.0
ACT_S = START_S + READY_TRIES + 15.0

_ACTS = (ImexAction.START, ImexAction.RESTART, ImexAction.CHANNEL)
_NEVER = {PeerLink.VERSION: "IMEX or the driver is of another version", PeerLink.MAP: "its node list is not the same"}

# A daemon takes a moment to start; `-q` may hang.
_WAIT = (
    f"i=0; while [ $i -lt {READY_TRIES} ]; do "
    '[ "$(timeout 5 nvidia-imex-ctl -q 2>/dev/null)" = READY ] && exit 0; i=$((i + 1)); sleep 0.5; done; exit 1'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImexNotes:
    """What was decided, and what a person should do."""

    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def set_up(client: AgentClient, run: Run, index: RunIndex, node: Node, member: Member) -> ImexNotes:
    """Set up IMEX on a node whose lease the run has.

    Nothing is done without an NVIDIA driver. RemoteError where the node is not reached.
    """
    if not run.fleet.capabilities.own_machines or node.gpu_driver is GpuDriver.NONE:
        return ImexNotes()
    if "block" not in client.ask({"op": "hello"}, timeout=ASK_S):
        return ImexNotes()  # without an agent there is no lease; the next step reports it
    part = index.slices[member.slice_key]
    mode = run.fleet.imex if len(part.nodes) > 1 else ImexMode.OFF
    bare = ImexPeers(own=_names(node), slice=_all(index, part.nodes), spares=_all(index, part.spares))
    if mode is ImexMode.OFF:
        return _told(decide(run.fleet.imex, bare, ImexDaemon()))
    facts = _ask(client, node, mode)
    if isinstance(facts, Unknown):
        return _told(decide(mode, bare, ImexDaemon(why=facts.why)))
    place = replace(bare, own=_own(node, facts), domain=run.fleet.domains.get(node.domain or "", ()))
    decision = decide(mode, place, seen(facts))
    return _act(client, decision) if decision.kind in _ACTS else _told(decision)


def _all(index: RunIndex, names: tuple[NodeName, ...]) -> tuple[frozenset[str], ...]:
    return tuple(_names(index.nodes[name]) for name in names)


def _names(node: Node) -> frozenset[str]:
    return frozenset((node.access.address, node.name))


def _own(node: Node, facts: Facts) -> frozenset[str]:
    addresses = () if isinstance(facts.addresses, Unknown) else facts.addresses
    hostname = () if isinstance(facts.host, Unknown) else (facts.host.hostname,)
    return _names(node) | {*addresses, *hostname}


def _ask(client: AgentClient, node: Node, mode: ImexMode) -> Facts | Unknown:
    """Return the facts about IMEX on a node.

    With the users of its GPUs, where a daemon might be restarted.
    """
    names = {*node_facts.IMEX, "nvidia_smi"} if mode is ImexMode.MANAGE else node_facts.IMEX
    program = resources.files("launcher.runtime").joinpath("facts.py").read_bytes()
    call = node_facts.call(program, node, only=names)
    try:
        ended = client.shell.run(client.access, call.argv, stdin=call.stdin, timeout=call.timeout + WAY_S)
    except RemoteError as error:
        return Unknown(why=error.message)
    return node_facts.read_facts(ended.stdout, node, now=0.0)


def seen(facts: Facts) -> ImexDaemon:
    """Return IMEX as the facts of a node show it."""
    unit, ready, files, domain = facts.imex_active, facts.imex_ready, facts.imex_files, facts.imex_domain
    if isinstance(ready, bool):
        active: bool | None = True  # a daemon answers, whatever started it
    else:
        active = False if unit is None else None if isinstance(unit, Unknown) else unit
    read = files if isinstance(files, ImexFiles) else None
    return ImexDaemon(
        installed=not (isinstance(ready, Unknown) and ready.missing and unit is not True),
        active=active,
        ready=ready if isinstance(ready, bool) else None,
        peers=None if isinstance(domain, Unknown) else tuple(peer.names for peer in domain.peers),
        cut=_cut(facts),
        listed=read.nodes if read else None,
        settings=read.settings if read else {},
        channel=read.usable if read else None,
        no_channel=read is not None and not read.channel,
        sudo=None if isinstance(facts.sudo, Unknown) else facts.sudo,
        used_by=_users(facts),
        why="; ".join(fact.why for fact in (unit, domain) if isinstance(fact, Unknown)),
    )


def _cut(facts: Facts) -> dict[int, str]:
    if isinstance(facts.imex_domain, Unknown) or isinstance(facts.addresses, Unknown):
        return {}
    hostname = () if isinstance(facts.host, Unknown) else (facts.host.hostname,)
    own = facts.imex_domain.own(frozenset((*facts.addresses, *hostname)))
    if own is None:
        return {}
    others = {peer.index for peer in facts.imex_domain.peers if peer.version and own.version != peer.version}
    links = {**own.links, **(dict.fromkeys(others, PeerLink.VERSION) if own.version else {})}
    return {at: _NEVER[link] for at, link in links.items() if link in _NEVER}


def _users(facts: Facts) -> tuple[str, ...] | None:
    if isinstance(facts.driver, Unknown):
        return None
    users = [user for gpu in facts.driver.gpus for user in gpu.processes]
    return tuple(dict.fromkeys(f"`{user.name}` ({user.pid})" for user in users))


def _act(client: AgentClient, decision: ImexDecision) -> ImexNotes:
    """Do what was decided, and wait until the daemon is READY.

    A step that fails is left to a person.
    """
    argv = ("sudo", "-n", "/bin/sh", "-s")
    try:
        ended = client.shell.run(client.access, argv, stdin=script(decision.steps).encode(), timeout=ACT_S)
    except RemoteError as error:
        message = f"cannot set up IMEX: {error.message}"
        return _warned(message, f"{message}; run there:\n  {operator(decision.steps)}")
    tail = last_lines(ended.stderr)
    if ended.status != 0:
        message = f"cannot set up IMEX: {tail[-1] if tail else f'it ended with {ended.status}'}"
        return _warned(message, f"{message}; run there:\n  {operator(decision.steps)}")
    waited = client.shell.run(client.access, ("sh", "-c", _WAIT), timeout=ACT_S)
    if waited.status != 0:
        message = f"IMEX was started, but is not READY after {READY_TRIES / 2:.0f} s"
        return _warned(message, f"{message}: `nvidia-imex-ctl -q` shows what it waits for")
    return _told(decision)


def _told(decision: ImexDecision) -> ImexNotes:
    warnings = (decision.warning,) if decision.warning else ()
    return ImexNotes(notes=(f"IMEX {decision.kind.value}: {decision.reason}",), warnings=warnings)


def _warned(message: str, warning: str) -> ImexNotes:
    return ImexNotes(notes=(message,), warnings=(warning,))
