"""Starting the ranks of a gang, and reading what they wrote."""

import json

from launcher.core.model.actions import Answer, Result, Start
from launcher.core.model.run import Member, Run
from launcher.core.placement import colocation
from launcher.errors import RemoteError
from launcher.ports import LogName, LogPart
from launcher.setup import environ, ray
from launcher.setup.layout import Layout
from launcher.transport.agent import drivers
from launcher.transport.agent.addresses import Sites
from launcher.transport.agent.answers import done
from launcher.transport.agent.client import Json, Site
from launcher.transport.agent.heads import Heads

BEGIN_S = 30.0
BEGIN_EACH_S = 1.0
DRIVE_S = 20.0


def start(sites: Sites, heads: Heads, run: Run, action: Start) -> Answer:
    """Begin every rank of a gang in the actor of its slot, and its drivers; FAILED names those that did not begin."""
    members = [member for member in run.members() if run.gang(member) == action.gang]
    masters = {group: _master_port(sites, heads, run, action, group) for group in {m.group for m in members}}
    for member in members:
        if drivers.leads(run, member):
            begun = _drive(sites, heads, run, action, member, masters[member.group])
            if begun.result is not Result.DONE:
                return begun
    plain = [member for member in members if run.group(member.group).driver is None]
    ranks = [_rank(sites, run, action, member, masters[member.group]) for member in plain]
    if not ranks:
        return Answer(result=Result.DONE)
    limit = BEGIN_S + BEGIN_EACH_S * len(ranks)
    question = {"op": "start", "ranks": ranks, "timeout": limit}
    return done(heads.ask(run, question, timeout=limit + 5))


def _drive(sites: Sites, heads: Heads, run: Run, action: Start, member: Member, master_port: int) -> Answer:
    """Begin a driver under the agent of its slot, with what its rank would be given and what it needs for Ray."""
    rank, head = _rank(sites, run, action, member, master_port), sites.head(run)
    own = {
        **rank["spec"]["rank_env"],
        **ray.environment(head=False),
        "RAY_ADDRESS": f"{head.access.address}:{heads.ports(head).gcs}",
        "NVLAUNCH_SLICES": environ.slices(run, action.slots),
    }
    node = next(slot.node for slot in action.slots if slot.member == member.name)
    question = {
        "op": "drive",
        "label": member.label,
        "spec": {**rank["spec"], "rank_env": own},
        "mark": rank["mark"],
    }
    return done(sites.slot(run, node).ask(question, timeout=DRIVE_S))


def _master_port(sites: Sites, heads: Heads, run: Run, action: Start, group: str) -> int:
    first = next(slot for slot in action.slots if slot.member == f"{group}/0")
    lane, lanes = colocation.position_on_node(run.task, run.group(group))
    return heads.ports(sites.slot(run, first.node)).master_port(action.attempt, lane, lanes)


def _rank(sites: Sites, run: Run, action: Start, member: Member, master_port: int) -> Json:
    slot = next(slot for slot in action.slots if slot.member == member.name)
    site = sites.slot(run, slot.node)
    own = environ.rank(
        run, member, action.slots, attempt=action.attempt, restarts=action.restarts, master_port=master_port
    )
    return {
        "slot": member.label,
        "label": member.label,
        "actor": f"{member.label}#{slot.generation}",
        "slice": member.slice_key,
        "index": member.slice_rank,
        "bundle": ray.bundle(run.group(member.group)),
        "mark": site.layout.mark(slot.generation, member, action.attempt),
        "spec": {
            "member": member.name,
            "attempt": action.attempt,
            "script": Layout.run_script(member.group),
            "env": environ.given(run, run.node(slot.node), member),
            "rank_env": own,
        },
    }


def read_log(site: Site, log: LogName, offset: int) -> LogPart:
    """Return a piece of a log of a rank, or of the provisioning; RemoteError where the node cannot be asked."""
    member = log.member.replace("/", "-") if log.member else "-"
    ended = site.program("logs", site.layout.root, member, str(log.attempt), str(offset), timeout=20)
    header, _, data = ended.stdout.partition(b"\n")
    if ended.status != 0:
        tail = tuple(ended.stderr.decode(errors="replace").splitlines()[-5:])
        raise RemoteError("the log cannot be read", node=site.name, stage="logs", tail=tail)
    told = json.loads(header)
    return LogPart(data=data, next_offset=told["next"], attempt=told["attempt"])
