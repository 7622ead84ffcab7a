"""Prepares a node for a run: its agent, its files, its setup."""

from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from threading import Lock

from launcher.core.control.timing import ABANDONED_S, POPULATION_S, SELF_STOP_S
from launcher.core.model.actions import Prepare, Unit
from launcher.core.model.inventory import Node
from launcher.core.model.receipt import Answer, Result
from launcher.core.model.run import Run, RunId
from launcher.core.model.task import Group
from launcher.errors import LaunchError
from launcher.runtime.protocol import PROTOCOL, PrepareRequest, Reply
from launcher.runtime.protocol_buckets import BucketsSpec
from launcher.runtime.protocol_files import AgentSpec, InterpreterSpec
from launcher.setup.buckets import buckets_spec
from launcher.setup.layout import Layout
from launcher.setup.lease import describe_holder, read_holder
from launcher.setup.ports import HEARTBEAT, PINNED
from launcher.transport import imex
from launcher.transport.agent import containers, interpreter, same_machine
from launcher.transport.agent.addresses import Addresses
from launcher.transport.agent.answers import done
from launcher.transport.agent.client import AgentClient
from launcher.transport.upload import bundle, certificates, files, rclone
from launcher.transport.upload.snapshot import Snapshot

PORT_LOCKS = ("/run/lock/nvlaunch-ports", "/tmp/.nvlaunch-ports")  # noqa: S108
BEGIN_S = 35.0
UNPACK_S = 600.0
SLOWEST = 500_000
"""Bytes per second to a node that its files must reach: the share of 64 nodes behind one slow link."""


class Provisioner:
    """Acquires and prepares nodes. The files of a run are read once."""

    def __init__(self, addresses: Addresses, owner: str) -> None:
        self._addresses = addresses
        self._owner = owner
        self._snapshots: dict[tuple[RunId, str], Snapshot] = {}
        self._rclone: dict[RunId, dict[str, rclone.RcloneProgram]] = {}
        self._reading = Lock()

    def ensure_agent(self, run: Run, client: AgentClient) -> Answer:
        """Start the agent of a unit, unless it runs; HELD names the holder of the lease."""
        reply = client.ask({"op": "hello"}, timeout=10)
        if reply.get("ok") and not reply.get("absent"):
            self._addresses.note_block(client, reply)
            return Answer(result=Result.DONE)
        self.put(run, client)
        started = client.answer("agent_start", client.layout.root, timeout=BEGIN_S)
        if "held_by" in started:
            if read_holder(started["held_by"]).run == run.id and not client.shared:
                others = [node.name for node in run.fleet.nodes if node.name != client.name]
                return same_machine.answer(client, [self._addresses.slot(run, name) for name in others])
            return Answer(result=Result.HELD, message=started["held_by"])
        if started.get("ok"):
            self._addresses.note_block(client, started)
        return replace(done(started, client), warnings=tuple(started.get("warnings", ())))

    def put(self, run: Run, client: AgentClient) -> None:
        """Write the files of a run to a machine, in one go.

        Programs, agent spec, scripts, shared variables, token and key, and certificates where Ray uses them.
        """
        home = self._addresses.home
        private = bundle.run_secrets(home, run.id, client.layout.place)
        if run.fleet.ray_tls:
            private |= certificates.of_unit(home, run.id, client.access.address)
        task = self._of_task(run) if client.unit is Unit.SLOT else {}
        spec = bundle.agent_spec(self.spec(run, client))
        self._addresses.put(client, {**bundle.programs(), **spec, **private}, task)

    def _of_task(self, run: Run) -> bundle.Files:
        """Return the files that are the same on every node of a run.

        Scripts and shared variables.
        """
        scripts = {name: file for group in run.task.groups for name, file in _scripts(group).items()}
        return {**scripts, **bundle.shared(self._addresses.environment(run).at_first)}

    def spec(self, run: Run, client: AgentClient) -> AgentSpec:
        """Return what the agent of a unit is started with."""
        holder = describe_holder(run.name, run.id, self._owner)
        spec: AgentSpec = {
            "protocol": PROTOCOL,
            "run": run.id,
            "place": client.layout.place,
            "holder": holder,
            "scratch": client.layout.scratch,
            "socket": client.layout.socket,
            "lease": list(client.leases),
            "ports": {
                "starts": _rotated(client.blocks.starts, client.layout.scratch),
                "pinned": PINNED,
                "locks": list(PORT_LOCKS),
                "holder": holder,
                "fixed": client.unit is Unit.HEAD,
            },
            "heartbeat": HEARTBEAT if client.unit is Unit.HEAD else None,
            "self_stop": SELF_STOP_S,
            "population": POPULATION_S,
            "abandoned": ABANDONED_S,
            "login": not client.shared,
            "nested": bool(client.layout.former[1]),
            "ray": interpreter.MINOR,
            "interpreter": self._interpreter(run, client),
        }
        if run.task.ray_group is not None:
            spec["image_ray"] = True
        return spec

    def _interpreter(self, run: Run, client: AgentClient) -> InterpreterSpec | None:
        if client.shared or run.task.ray_group is not None:
            return None
        dashboard = client.unit is Unit.HEAD and run.task.dashboard
        return interpreter.wanted(client.access, self._env(run, client), dashboard=dashboard)

    def _env(self, run: Run, client: AgentClient) -> dict[str, str]:
        """Return the inventory's variables of a machine; one outside the racks has none."""
        return self._addresses.environment(run).of_machine.get(client.access, {})

    def prepare(self, run: Run, action: Prepare) -> Answer:
        """Write files to an acquired node and start its setup, once each.

        Scripts, secrets and workdir.
        """
        environment = self._addresses.environment(run)
        client, node = self._addresses.slot(run, action.node), environment.index.nodes[action.node]
        member = environment.index.by_name[action.member]
        self._addresses.ensure(client, self._of_task(run))
        here = environment.index.colocated(member)
        secrets = {one.group: run.task.secrets_of(run.group(one.group)) for one in here}
        names = {name for group in secrets.values() for name in group}
        request: PrepareRequest = {
            "op": "prepare",
            "variables": environment.setup(node, member),
            "setups": [
                {
                    "script": Layout.setup_script(one.group),
                    "variables": environment.setup(node, one),
                    "secrets": list(secrets[one.group]),
                }
                for one in here
                if run.group(one.group).setup
            ],
            "secrets": bundle.user_secrets(self._addresses.home, run.id, names),
            "workdir": run.task.folder is not None or bool(run.task.file_mounts),
        }
        if inside := containers.request(run, here, containers.identities(self._addresses.home, run)):
            request["containers"] = inside
        if run.task.bucket_mounts:
            request["buckets"] = self._buckets(run, node)
        memory = imex.set_up(client, run, environment.index, node, member)
        return replace(self._prepare(run, client, request), notes=memory.notes, warnings=memory.warnings)

    def prepare_head(self, run: Run) -> Answer:
        """Have the agent of the head make a Python environment, or a container whose image has Ray, where needed."""
        request: PrepareRequest = {"op": "prepare", "variables": None, "setups": [], "secrets": {}, "workdir": False}
        if inside := containers.head_request(run, containers.identities(self._addresses.home, run)):
            request["containers"] = inside
        return self._prepare(run, self._addresses.head(run), request)

    def _prepare(self, run: Run, client: AgentClient, request: PrepareRequest) -> Answer:
        """Send a request to prepare, and the files that the agent asks for, once each."""
        reply = client.ask(request, timeout=20)
        for name in ("workdir", "wheels", "rclone", "images"):
            if reply.get("need") == name:
                sent = self._send(client, name, self._needed(run, client, request, reply))
                if not sent["ok"]:
                    return done(sent, client)
                reply = client.ask(request, timeout=20)
        return done(reply, client)

    def _needed(self, run: Run, client: AgentClient, request: PrepareRequest, reply: Reply) -> Snapshot:
        """Return what an agent asks for: the user's files, wheels, rclone, or archives of images; LaunchError."""
        home = self._addresses.home
        match reply["need"]:
            case "rclone":
                return self._program(run, reply)
            case "images":
                if "containers" not in request:
                    raise LaunchError("odd reply: the node asks for images, and has no container")
                groups = [one["group"] for one in request["containers"]["specs"]]
                return self._kept(run, f"images {' '.join(groups)}", lambda: files.keep_images(home, run, groups))
            case "wheels" if wheels := client.access.wheels:
                return self._kept(run, f"wheels {wheels}", lambda: files.keep_wheels(home, run.id, wheels))
        return self._kept(run, "workdir", lambda: files.keep(home, run))

    def _kept(self, run: Run, key: str, read: Callable[[], Snapshot]) -> Snapshot:
        """Return files as they were read first for this run."""
        with self._reading:
            if (run.id, key) not in self._snapshots:
                self._snapshots[run.id, key] = read()
            return self._snapshots[run.id, key]

    def _buckets(self, run: Run, node: Node) -> BucketsSpec:
        """Return what a node is told of the task's buckets.

        The daemon of a container engine is another user, who has to reach what is mounted.
        """
        with self._reading:
            hashes = rclone.hashes(self._programs(run))
        inside = any(group.container for group in run.task.groups)
        return buckets_spec(run.task, run.fleet.storage, node.env, hashes, allow_other=inside)

    def _programs(self, run: Run) -> dict[str, rclone.RcloneProgram]:
        """Return the programs for buckets that this machine can send; looked for once a run."""
        if run.id not in self._rclone:
            wheels = dict.fromkeys(node.access.wheels for node in run.fleet.nodes if node.access.wheels)
            self._rclone[run.id] = rclone.programs(wheels)
        return self._rclone[run.id]

    def _program(self, run: Run, reply: Reply) -> Snapshot:
        """Return the program for buckets that a node asks for."""
        with self._reading:
            program = self._programs(run).get(reply.get("machine", ""))
        if program is None:
            raise LaunchError("this machine has no rclone for the architecture that the node has named")
        return self._kept(run, f"rclone {program.hash}", lambda: rclone.keep(self._addresses.home, run.id, program))

    @staticmethod
    def _send(client: AgentClient, name: str, snapshot: Snapshot) -> Reply:
        """Send a node the files that it does not have; return its reply."""
        root, former = client.layout.root, client.layout.former
        reply = client.answer("unpack", "plan", root, name, *former, stdin=snapshot.manifest, timeout=UNPACK_S)
        if not reply["ok"] or "missing" not in reply:
            return reply
        try:
            contents = snapshot.contents(reply["missing"])
        except IndexError:
            return {"ok": False, "message": "odd reply: `missing` has the number of no content"}
        timeout = UNPACK_S + len(contents) / SLOWEST
        return client.answer("unpack", "fill", root, name, stdin=contents, timeout=timeout)


def _rotated(starts: tuple[int, ...], name: str) -> list[int]:
    """Return the blocks in an order that begins elsewhere for each unit.

    A head that is started again must find its own block free, not just taken by a unit that started meanwhile.
    """
    first = int(sha256(name.encode()).hexdigest(), 16) % len(starts)
    return [*starts[first:], *starts[:first]]


def _scripts(group: Group) -> bundle.Files:
    """Return the user's scripts of a group, byte for byte.

    A driver takes the place of `run`.
    """
    files = {Layout.run_script(group.name): ((group.driver or group.run).encode(), 0o600)}
    if group.setup:
        files[Layout.setup_script(group.name)] = (group.setup.encode(), 0o600)
    return files
