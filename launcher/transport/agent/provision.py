"""Making a node ready for a run: its agent, its files, its setup."""

from dataclasses import replace
from hashlib import sha256
from threading import Lock

from launcher.core.control.timing import POPULATION_S, SELF_STOP_S
from launcher.core.model.actions import Answer, Prepare, Result, Unit
from launcher.core.model.run import Run, RunId
from launcher.core.model.task import Group
from launcher.setup.layout import Layout
from launcher.setup.lease import holder_words
from launcher.setup.ports import HEARTBEAT, PINNED
from launcher.transport import imex
from launcher.transport.agent import interpreter
from launcher.transport.agent.addresses import Sites
from launcher.transport.agent.answers import done
from launcher.transport.agent.client import Json, Site
from launcher.transport.upload import bundle, files
from launcher.transport.upload.snapshot import Snapshot

PORT_LOCKS = ("/run/lock/nvlaunch-ports", "/tmp/.nvlaunch-ports")  # noqa: S108
BEGIN_S = 35.0
UNPACK_S = 600.0
SLOWEST = 500_000
"""Bytes a second to a node, below which its files do not arrive in time: 64 nodes at once behind one slow link."""


class Provision:
    """Claims and prepares nodes. The files of a run are read once."""

    def __init__(self, sites: Sites, owner: str) -> None:
        self._sites = sites
        self._owner = owner
        self._kept: dict[tuple[RunId, str], Snapshot] = {}
        self._keeping = Lock()

    def keep(self, run: Run, site: Site) -> Answer:
        """Start the agent of a unit unless it lives; HELD says who has the lease."""
        told = site.ask({"op": "hello"}, timeout=10)
        if told.get("ok") and not told.get("absent"):
            self._sites.note_block(site, told)
            return Answer(result=Result.DONE)
        self.put(run, site)
        told = site.answer("agent_start", site.layout.root, timeout=BEGIN_S)
        if "held" in told:
            return Answer(result=Result.HELD, message=told["held"])
        if told.get("ok"):
            self._sites.note_block(site, told)
        return done(told)

    def put(self, run: Run, site: Site) -> None:
        """Put programs, orders, scripts and token of a run on a machine, all at once."""
        token = {"token": (bundle.token(self._sites.home, run.id), 0o600)}
        own = self._of_task(run) if site.unit is Unit.SLOT else {}
        self._sites.put(site, {**bundle.programs(), **bundle.orders(self._orders(run, site)), **token}, own)

    def _of_task(self, run: Run) -> bundle.Files:
        """Return what every node of a run is given: its scripts, and the variables that its ranks share."""
        scripts = {name: file for group in run.task.groups for name, file in _scripts(group).items()}
        return {**scripts, **bundle.shared(self._sites.environment(run).at_first)}

    def _orders(self, run: Run, site: Site) -> Json:
        holder = holder_words(run.name, run.id, self._owner)
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
            "population": POPULATION_S,
            "login": not site.shared,
            "nested": bool(site.layout.former[1]),
            "ray": interpreter.MINOR,
            "interpreter": None if site.shared else interpreter.wanted(site.access, self._env(run, site)),
        }

    def _env(self, run: Run, site: Site) -> dict[str, str]:
        """Return the variables of a site's machine; one outside of the racks has none."""
        return self._sites.environment(run).of_machine.get(site.access, {})

    def prepare(self, run: Run, action: Prepare) -> Answer:
        """Put scripts, secrets and workdir on a claimed node and start its setup, once each."""
        environment = self._sites.environment(run)
        site, node = self._sites.slot(run, action.node), environment.index.nodes[action.node]
        member = environment.index.by_name[action.member]
        self._sites.ensure(site, self._of_task(run))
        question = {
            "op": "prepare",
            "variables": environment.setup(node, member),
            "setups": [
                {"script": Layout.setup_script(one.group), "variables": environment.setup(node, one)}
                for one in environment.index.colocated(member)
                if run.group(one.group).setup
            ],
            "secrets": bundle.user_secrets(self._sites.home, run.id),
            "workdir": run.task.workdir is not None or bool(run.task.file_mounts),
        }
        memory = imex.see_to(site, run, environment.index, node, member)
        return replace(self._ask(run, site, question), notes=memory.notes, warnings=memory.warnings)

    def prepare_head(self, run: Run) -> Answer:
        """Give the agent of the head what its Ray needs: an environment, where the machine has no Python with Ray."""
        question: Json = {"op": "prepare", "variables": None, "setups": [], "secrets": {}, "workdir": False}
        return self._ask(run, self._sites.head(run), question)

    def _ask(self, run: Run, site: Site, question: Json) -> Answer:
        """Ask an agent to prepare, and send what it needs for that, each thing once."""
        told = site.ask(question, timeout=20)
        for name in ("workdir", "wheels"):
            if told.get("need") == name:
                sent = self._send(site, name, self._snapshot(run, site, name))
                if not sent["ok"]:
                    return done(sent)
                told = site.ask(question, timeout=20)
        return done(told)

    def _snapshot(self, run: Run, site: Site, name: str) -> Snapshot:
        """Return what is sent: the user's files, or the wheels that the inventory names for the machine."""
        wheels = (site.access.wheels or "") if name == "wheels" else ""
        home, key = self._sites.home, (run.id, wheels)
        with self._keeping:
            if key not in self._kept:
                self._kept[key] = files.keep_wheels(home, run.id, wheels) if wheels else files.keep(home, run)
            return self._kept[key]

    @staticmethod
    def _send(site: Site, name: str, snapshot: Snapshot) -> Json:
        """Send files to a node, all that it does not have; returns what the node says of it."""
        root = site.layout.root
        told = site.answer("unpack", "plan", root, name, *site.layout.former, stdin=snapshot.manifest, timeout=UNPACK_S)
        if not told["ok"] or "missing" not in told:
            return told
        contents = snapshot.contents(told["missing"])
        timeout = UNPACK_S + len(contents) / SLOWEST
        return site.answer("unpack", "fill", root, name, stdin=contents, timeout=timeout)


def _rotated(starts: tuple[int, ...], name: str) -> list[int]:
    """Return the blocks from another first one for each unit: a head that comes back must find its own still free,
    not just taken by a unit that began meanwhile."""
    first = int(sha256(name.encode()).hexdigest(), 16) % len(starts)
    return [*starts[first:], *starts[:first]]


def _scripts(group: Group) -> bundle.Files:
    """Return the user's scripts of a group, byte for byte; a driver stands where others have what ranks run."""
    files = {Layout.run_script(group.name): ((group.driver or group.run).encode(), 0o600)}
    if group.setup:
        files[Layout.setup_script(group.name)] = (group.setup.encode(), 0o600)
    return files
