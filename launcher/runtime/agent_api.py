"""The requests that an agent answers: a method for each."""

import contextlib
import logging
import math
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from . import (
    agent_folders,
    driver,
    environment,
    files,
    handshake,
    interpreter,
    mounts,
    node_fault,
    procs,
    ranks,
    rendezvous,
    slot_status,
)
from .agent_faults import AgentFaults
from .agent_programs import LOGS, AgentPrograms
from .children import Children
from .connectivity import Connectivity
from .containers import keep
from .containers.fixed_images import FixedImages
from .deadline import Deadline
from .fences import Fences
from .heartbeat import Heartbeat
from .heartbeat_server import HeartbeatServer
from .own_status import OwnStatus
from .patience import Patience
from .preparation import Preparation, RunHere
from .protocol import (
    ALWAYS_ANSWERED,
    PROTOCOL,
    DriveRequest,
    EnvironmentReply,
    KillRequest,
    PlainRequest,
    RayRequest,
    Reply,
    SignalRequest,
    StatusReply,
    StatusRequest,
    mismatch,
)
from .protocol_files import WORKERS, AgentSpec, EnvironmentRequest
from .ray_program import RayProgram
from .redact import SecretFilter
from .status_board import StatusBoard
from .supervision import Supervision
from .watched import WatchedProgram

SUPERVISOR_S = 1.0
"""Seconds for the supervisor's part of a head's status."""


class AgentApi:
    """The state of an agent. Requests have threads of their own, `tick` the main one."""

    def __init__(self, folder: Path, spec: AgentSpec, block: int, children: Children) -> None:
        self._folder = folder
        self._spec = spec
        self._children = children
        self._scratch = Path(spec["scratch"])
        self._base = environment.user(os.environ, whole=spec["login"])
        self._programs = AgentPrograms(folder, interpreter.wanted(folder, spec))
        self._secrets = agent_folders.secrets(self._scratch) / "secrets.json"
        self._filter = SecretFilter(self._secrets)
        log = folder / "log"
        self._setup = WatchedProgram(children, folder, log / "provision.log", folder / "setup.json", staged=True)
        self._ray = RayProgram(children, folder, log / LOGS["ray_start"])
        supervisor = WatchedProgram(children, folder, log / LOGS["supervisor"])
        self._supervision = Supervision(supervisor, self._ray, self._scratch)
        self._mounts = mounts.Mounts(WatchedProgram(children, folder, log / "mounts.log"), folder, spec)
        self._block, self._images = block, FixedImages()
        self._deadline = self._secrets.with_name("deadline")
        here = RunHere(folder, spec, self._base, self._secrets)
        self._preparation = Preparation(here, self._programs, self._setup, self._mounts, self._images)
        self._fences = Fences(folder / agent_folders.FENCES)
        self._faults = AgentFaults((folder, self._scratch))
        self._slot = slot_status.SlotStatus(folder, self._setup, self._images, self._mounts, self._faults)
        self._over_at = math.inf
        self._connectivity = Connectivity()
        key, limit, place = handshake.kept(folder), spec["self_stop"], spec["place"]
        self.own, self._board = OwnStatus(self._own_status), StatusBoard()
        ends = Deadline(self._deadline).put
        self.heartbeat = Heartbeat(place, key, limit, self.stop_itself, ends, status=self.own)
        self.heartbeats: HeartbeatServer | None = None
        if spec["heartbeat"] is not None:
            ends = Deadline(agent_folders.head_deadline(self._scratch)).put
            self.heartbeats = HeartbeatServer(key, limit, spec["population"], self.cut_off, ends, board=self._board)
        self._member: str | None = None
        self._turn = self._preparation.turn
        self._patience = Patience(spec["abandoned"], lambda: self.stop({"op": "stop"})["ok"])
        self._answers: dict[str, Callable[[Any], Reply]] = {
            "hello": self.hello,
            "status": self.status,
            "prepare": self._preparation.prepare,
            "ray": self.ray,
            "kill": lambda asked: keep.after_kill(asked["level"], self.kill(asked), folder, spec, self._base),
            "signal": self.signal,
            "views": lambda asked: self._board.reply(asked["since"]),
            "drive": self.drive,
            "environment": self.environment,
            "ended": self._faults.ended,
            "image": self._images.asked,
            "supervisor": lambda asked: self._supervision.ask(asked["question"], asked["timeout"]),
            "stop": self.stop,
        }

    def reply(self, request: Mapping[str, Any]) -> Reply:
        """Return the reply to a request, without the values of secrets."""
        op = str(request.get("op"))
        if op not in ("environment", "image"):  # those are programs of this node
            self._patience.asked()
        if op not in ALWAYS_ANSWERED and (wrong := mismatch(request.get("protocol"))):
            return {"ok": False, "protocol": PROTOCOL, "message": f"request refused: {wrong}"}
        answer = self._answers.get(op)
        if answer is None:
            return {"ok": False, "message": f"unknown request `{op}`"}
        return self._filter.clean(answer(request))

    def hello(self, request: PlainRequest) -> Reply:
        """Return the first port of the agent's block, and a free one for rendezvous if asked."""
        return rendezvous.told(self._folder, request, {"ok": True, "protocol": PROTOCOL, "block": self._block})

    def status(self, request: StatusRequest) -> StatusReply:
        """Return how setup, Ray and ranks stand, and which of the probed machines answer."""
        self._images.fix(request.get("images", {}))
        if self.heartbeats:
            status = slot_status.of_agent(self._block, self._member, self._ray)
            self._images.add_to(status)
            status["heartbeat_ages"], status["listening"] = self.heartbeats.ages(), self.heartbeats.listening
            status["supervisor"] = self._supervision.ask({"op": "status"}, SUPERVISOR_S)
            return self._faults.added_to(status)
        if "head" in request and self._member is None:
            self.heartbeat.hint(*request["head"])
        status = self.own.numbered()
        status["reachable"] = self._connectivity.probe(request.get("probe", {}))
        status["head_silence"], status["head_unheard"] = self.heartbeat.silence, self.heartbeat.unheard
        return status

    def _own_status(self) -> StatusReply:
        """Return what the head's agent is sent, too."""
        status = slot_status.of_agent(self._block, self._member, self._ray)
        status["followed"] = self.heartbeat.followed
        status["head_bound"] = self._member is None or self.heartbeat.head_bound
        return cast("StatusReply", self._filter.clean(self._slot.added_to(status)))

    def ray(self, request: RayRequest) -> Reply:
        """Start `ray start --block` for a generation, unless it runs.

        A head gets a supervisor beside it. A slot's raylet starts only after the head's machine has answered: so the
        head's agent knows all its nodes.
        """
        generation, supervisor = request["generation"], request.get("supervisor")
        with self._turn:
            if message := self._fences.against_raylet(request.get("member", ""), generation):
                return {"ok": False, "message": message}
            if self._ray.running:
                if self._ray.generation == generation:
                    return {"ok": True}
                return {"ok": False, "message": f"the raylet of generation {self._ray.generation} still runs"}
            beside = agent_folders.watched_head(request.get("head_scratch"))
            if "head" in request and not self.heartbeat.follow(*request["head"], beside):
                return {"ok": False, "message": f"the head's machine `{request['head'][0]}` does not answer this node"}
            if self.heartbeats:
                self.heartbeats.begin()
            self._member = request.get("member")
            node_fault.require_room()
            agent_folders.clear_ray(self._folder, self._scratch, cluster=None if supervisor is None else generation)
            folder = str(self._folder)
            env = environment.ray(request["env"], folder, str(self._scratch), self._programs.python)
            env[environment.MARK] = f"{self._spec['run']}:{self._spec['place']}:{generation}"
            argv = self._programs.with_ray("ray_start", str(request.get("client", "-")), *request["argv"])
            (self._folder / WORKERS).unlink(missing_ok=True)
            if "workers" in request:
                files.write(self._folder / WORKERS, request["workers"])
            here = self._scratch / f"g{generation}"  # Ray's agents overwrite their mark: they are found by their folder
            here.mkdir(exist_ok=True)
            self._ray.start(argv, env, folder=here, generation=generation)
            if supervisor is not None:
                self._supervision.begin(self._programs.with_ray("supervisor", str(self._scratch), supervisor), env)
        self._children.wake()
        return {"ok": True}

    def kill(self, request: KillRequest, spared: str = "") -> Reply:
        """Kill a scope; `left` are the processes after two scans, none when done.

        One of the whole node ends its mounts too, unless those are `spared`.
        """
        level, member = request["level"], request.get("member", "")
        generation, attempt = request.get("generation", 0), request.get("attempt", 0)
        if level != "node":
            with self._turn:  # a raylet that is just being started is there when this goes on, and is found
                self._fences.raise_to(level, member, generation, attempt)
        until = ranks.others_began(self._folder, member, attempt) if level == "rank" else math.inf
        scope = replace(procs.of_spec(self._spec), level=level, generation=generation, member=member, attempt=attempt)
        scope = replace(scope, until=until, spared=spared)
        return mounts.kill(scope, self._mounts, self._children.pids, request.get("grace", procs.GRACE_S))

    def signal(self, request: SignalRequest) -> Reply:
        """Send a signal to every process of the ranks here, or of those of one gang."""
        number = signal.Signals[f"SIG{request['signal'].removeprefix('SIG')}"]
        scope, gang = procs.of_spec(self._spec), request.get("gang")
        told = ranks.signal(self._folder, scope, number, gang, os.getpid(), self._children.pids)
        return {"ok": True, "count": told}

    def drive(self, request: DriveRequest) -> Reply:
        """Start a driver, once for an attempt."""
        spec = environment.driver(request["spec"], self._folder, self._programs.python)
        with self._turn:
            return driver.begin(self._folder, self._children, spec, request["label"], request["mark"])

    def environment(self, request: EnvironmentRequest) -> EnvironmentReply:
        """Return what the parent of a rank needs; a killed rank is refused."""
        asked = (request["member"], request["generation"], request["attempt"]) if "member" in request else None
        if asked and (message := self._fences.against_rank(*asked)):
            return {"ok": False, "message": message}
        return {
            "ok": True,
            "base": self._base,
            "secrets": str(self._secrets),
            "agent": os.getpid(),
            "deadline": str(self._deadline),
            "umask": self._children.umask,
            "login": self._spec["login"],
        }

    def tick(self) -> None:
        """Keep the supervisor of a head; end after a stop whose reply is on its way, or if nobody asks again."""
        self._supervision.tick()
        self._mounts.tick()
        self._patience.tick()
        if time.monotonic() >= self._over_at:
            self._end()

    def stop_itself(self, reason: str) -> None:
        """Kill ranks and Ray, because others may count this node as lost.

        Secrets go with them: whoever starts something here again sends them first.
        """
        logging.warning("%s: killing ranks and Ray", reason)
        self._patience.begin()
        if self._member is not None or self.heartbeats:
            self.kill({"op": "kill", "level": "node", "grace": 0})
        self._secrets.unlink(missing_ok=True)
        self._setup.forget()

    def cut_off(self) -> None:
        """Kill the head's Ray, because most of its nodes cannot reach it."""
        self.stop_itself("heartbeats from fewer than half of the nodes")

    def stop(self, _: PlainRequest) -> Reply:
        """Kill all of the run here and end; the lease is released with this process."""
        self._supervision.end()
        if self._mounts.wanted:
            reply = self.kill({"op": "kill", "level": "node"}, spared=mounts.SPARED)
            if not reply["ok"] or (sending := self._mounts.wait_for_writes()):
                return reply if not reply["ok"] else {"ok": False, "message": sending}
        reply = self.kill({"op": "kill", "level": "node"})
        reply = keep.removed(self._folder, self._spec, self._base) if reply["ok"] else reply
        if reply["ok"]:
            self.heartbeat.leave()
            told = [reply.get("message"), self._mounts.lost, agent_folders.clear(self._folder, self._spec)]
            if any(told):
                reply["message"] = "; ".join(filter(None, told))
            self._over_at = time.monotonic() + 0.1
            with contextlib.suppress(RuntimeError):  # no thread more: `tick` ends it
                threading.Timer(0.1, self._end).start()
        return reply

    def break_down(self, reason: str) -> None:
        """End, with all that was begun here: an agent that cannot serve must hold neither node nor lease."""
        logging.error("the agent cannot serve: %s", reason)
        self._supervision.end()
        with contextlib.suppress(OSError):  # what this process began ends with it, and ranks end with their agent
            self.kill({"op": "kill", "level": "node", "grace": 0})
        with contextlib.suppress(OSError):
            self._secrets.unlink(missing_ok=True)
        self._end()

    def _end(self) -> None:
        self._children.stopping.set()
        self._children.wake()
