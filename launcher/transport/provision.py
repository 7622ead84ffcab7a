"""Making a node ready for a run: its keeper, its files, its setup."""

from hashlib import sha256
from pathlib import Path
from threading import Lock

from launcher.core.actions import Answer, Prepare, Result, Unit
from launcher.core.run import Member, Run, RunId
from launcher.setup import environ
from launcher.setup.layout import Layout
from launcher.setup.ports import HEARTBEAT, PINNED
from launcher.transport import parcel, workdir
from launcher.transport.answers import done
from launcher.transport.site import Json, Site
from launcher.transport.sites import Sites

SELF_STOP_S = 15.0
"""After how much silence of the head's machine a node ends its own ranks and Ray; see the design, Nodes and keeper."""

PORT_LOCKS = ("/run/lock/nvlaunch-ports", "/tmp/.nvlaunch-ports")  # noqa: S108
BEGIN_S = 35.0
UNPACK_S = 600.0


class Provision:
    """Claims and prepares nodes. The workdir of a run is packed once."""

    def __init__(self, sites: Sites, owner: str) -> None:
        self._sites = sites
        self._owner = owner
        self._packed: dict[RunId, bytes] = {}
        self._packing = Lock()

    def keep(self, run: Run, site: Site) -> Answer:
        """Start the keeper of a unit unless it lives; HELD says who has the lease."""
        told = site.ask({"op": "hello"}, timeout=10)
        if told.get("ok") and not told.get("absent"):
            return Answer(result=Result.DONE)
        self.put(run, site)
        told = site.answer("keeper", "begin", site.layout.root, timeout=BEGIN_S)
        if "held" in told:
            return Answer(result=Result.HELD, words=told["held"])
        return done(told)

    def put(self, run: Run, site: Site) -> None:
        """Put programs, orders and token of a run on a machine."""
        token = {"token": (parcel.token(self._sites.home, run.id), 0o600)}
        site.put({**parcel.programs(), **parcel.orders(self._orders(run, site)), **token})

    def _orders(self, run: Run, site: Site) -> Json:
        holder = f"run `{run.name}` ({run.id}) of {self._owner}"
        return {
            "run": run.id,
            "place": site.layout.place,
            "holder": holder,
            "scratch": site.layout.scratch,
            "socket": site.layout.socket,
            "lease": list(site.leases),
            "ports": {
                "starts": _rotated(site.blocks.starts, site.layout.scratch),
                "pinned": PINNED,
                "locks": list(PORT_LOCKS),
                "holder": holder,
                "fixed": site.unit is Unit.HEAD,
            },
            "heartbeat": HEARTBEAT if site.unit is Unit.HEAD else None,
            "self_stop": SELF_STOP_S,
        }

    def prepare(self, run: Run, action: Prepare) -> Answer:
        """Put scripts, secrets and workdir on a claimed node and start its setup, once each."""
        site, node = self._sites.seat(run, action.node), run.node(action.node)
        member = next(one for one in run.members() if one.name == action.member)
        site.put(_scripts(run, member))
        question = {
            "op": "prepare",
            "setup": Layout.setup_script(member.group) if run.group(member.group).setup else None,
            "env": environ.setup(run, node, member),
            "secrets": parcel.user_secrets(self._sites.home, run.id),
            "workdir": run.task.workdir is not None,
        }
        told = site.ask(question, timeout=20)
        if told.get("need") == "workdir" and run.task.workdir is not None:
            ended = site.program(
                "unpack", site.layout.root, stdin=self._pack(run.id, run.task.workdir), timeout=UNPACK_S
            )
            if ended.status != 0:
                tail = tuple(ended.stderr.decode(errors="replace").splitlines()[-20:])
                return Answer(result=Result.FAILED, words="the workdir cannot be unpacked", tail=tail)
            told = site.ask(question, timeout=20)
        return done(told)

    def _pack(self, run: RunId, folder: str) -> bytes:
        with self._packing:
            if run not in self._packed:
                self._packed[run] = workdir.pack(Path(folder))
            return self._packed[run]


def _rotated(starts: tuple[int, ...], name: str) -> list[int]:
    """Answer the blocks from another first one for each unit: a head that comes back must find its own still free,
    not just taken by a unit that began meanwhile."""
    first = int(sha256(name.encode()).hexdigest(), 16) % len(starts)
    return [*starts[first:], *starts[:first]]


def _scripts(run: Run, member: Member) -> parcel.Files:
    """Answer the user's scripts of a group, byte for byte."""
    group = run.group(member.group)
    files = {Layout.run_script(group.name): (group.run.encode(), 0o600)}
    if group.setup:
        files[Layout.setup_script(group.name)] = (group.setup.encode(), 0o600)
    return files
