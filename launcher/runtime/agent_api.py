"""What an agent can be asked. Each question has a name and a method; each answer is an object with `ok`."""

import contextlib
import logging
import math
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import environment, files, interpreter, logs, procs, rank_actor, ranks, rpc, setups
from .children import Children
from .connectivity import Reach
from .fences import Fences
from .heartbeat import Beat, Deadline
from .heartbeat_server import Listener
from .protocol import Setup
from .redact import Blank
from .steps import Step

Json = dict[str, Any]
SUPERVISOR_PAUSE_S = 1.0
COPYING = "copying files"
BEGAN = "began.json"
FENCES = "fences.json"
CLUSTER = "cluster.json"
SUPERVISOR_S = 1.0
"""Seconds for the supervisor's answer to a look, which others wait for."""
PACKAGE = str(Path(__file__).resolve().parent)


class Service:
    """The agent's state and its answers. Questions come in threads of their own; `tick` in the main thread."""

    def __init__(self, folder: Path, spec: Json, block: int, children: Children) -> None:
        self._folder = folder
        self._spec = spec
        self._children = children
        self._scratch = Path(spec["scratch"])
        self._base = environment.user(os.environ, whole=spec.get("login", False))
        self._interpreter = interpreter.wanted(folder, spec)
        self._secrets = _secrets_folder(self._scratch) / "secrets.json"
        self._blank = Blank(self._secrets)
        self._setup = Step(
            children, folder, folder / "log" / "provision.log", folder / "setup.json", folder / interpreter.STAGE
        )
        self._ray = Step(children, folder, folder / "log" / "ray.log")
        self._supervisor = Step(children, folder, folder / "log" / "supervisor.log")
        self._supervised: tuple[list[str], dict[str, str]] | None = None
        self._supervisor_after = 0.0
        self._block = block
        self._deadline = self._secrets.with_name("deadline")
        self._fences = Fences(folder / FENCES)
        self._quiet = ranks.Quiet()
        self._reach = Reach()
        self.beat = Beat(spec["place"], spec["self_stop"], self.stop_itself, Deadline(self._deadline).put)
        heads = spec["heartbeat"] is not None
        self.listener = Listener(spec["self_stop"], spec["population"], self.cut_off) if heads else None
        self._member: str | None = None
        self._doing = threading.Lock()
        self._asked: dict[str, Callable[[Json], Json]] = {
            "hello": lambda _: {"ok": True, "block": block},
            "status": self.status,
            "prepare": self.prepare,
            "ray": self.ray,
            "kill": self.kill,
            "signal": self.signal,
            "drive": self.drive,
            "environment": self.environment,
            "supervisor": self.supervisor,
            "stop": self.stop,
        }

    def reply(self, question: Json) -> Json:
        """Return one question, without the value of any secret in words and lines."""
        asked = self._asked.get(str(question.get("op")))
        if asked is None:
            return {"ok": False, "message": f"unknown question `{question.get('op')}`"}
        return self._blank.of(asked(question))

    def status(self, question: Json) -> Json:
        """Return where setup, Ray, the supervisor and the ranks stand, and who else answers of those that are asked
        about (`reach`: name to address and ports). `head` is where an agent without a slot may listen for it."""
        answer: Json = {"ok": True, "agent": os.getpid(), "block": self._block, "ray": self._ray.report()}
        answer["member"] = self._member
        if self.listener:
            heard = {"heard": self.listener.ages(), "listening": self.listener.listening}
            return {**answer, **heard, "supervisor": self._ask_supervisor({"op": "status"}, timeout=SUPERVISOR_S)}
        slot = {"setup": self._setup.report(), "ranks": ranks.reports(self._folder, self._quiet)}
        if "head" in question and self._member is None:
            self.beat.hint(*question["head"])
        reached = self._reach.ask(question.get("reach", {}))
        return {**answer, **slot, "head_silent": self.beat.silence, "reached": reached}

    def prepare(self, question: Json) -> Json:
        """Keep secrets, ask for files that are missing, and run setup once in the life of the folder."""
        files.write(self._secrets, question["secrets"])
        if question["workdir"] and not (self._folder / "workdir").exists():
            return self._need("workdir")
        if self._interpreter and self._interpreter.lacks_wheels:
            return self._need("wheels")
        (self._folder / "workdir").mkdir(exist_ok=True)
        with self._doing:
            if self._setup.running or self._setup.ended:
                return {"ok": True}
            argv = self._setup_argv(question["setups"])
            if not argv:
                self._setup.skip()
                return {"ok": True}
            mark = f"{self._spec['run']}:{self._spec['place']}:setup"
            variables = question["variables"]
            own = environment.whole(self._folder, variables) if variables else {}
            env = {**self._base, **own, **question["secrets"], procs.MARK: mark}
            message = "" if self._interpreter is None or self._interpreter.made else interpreter.WORDS
            self._setup.start(argv, env, folder=self._folder / "workdir", message=message)
        return {"ok": True}

    def _need(self, name: str) -> Json:
        self._setup.tell(COPYING)
        return {"ok": True, "need": name}

    def _setup_argv(self, scripts: list[Setup]) -> list[str]:
        """Return the user's setup, with the making of an environment before it where one is wanted and not there."""
        argv = ["bash", str(self._folder / scripts[0]["script"])] if scripts else []
        if len(scripts) > 1:
            files.write(self._folder / setups.SETUPS, {"setups": scripts})
            argv = [sys.executable, "-EsS", PACKAGE, "setups", str(self._folder)]
        if self._interpreter is None or self._interpreter.made:
            return argv
        return [sys.executable, "-EsS", PACKAGE, "interpreter", "setup", str(self._folder), *argv]

    def _of_ray(self, part: str, *argv: str) -> list[str]:
        """Return how to run a part of ours that needs Ray, on the interpreter that has it."""
        if self._interpreter is None:
            return [sys.executable, "-Es", PACKAGE, part, *argv]
        return [sys.executable, "-EsS", PACKAGE, "interpreter", "run", str(self._folder), part, *argv]

    def ray(self, question: Json) -> Json:
        """Start `ray start --block` for a generation, unless it runs; on a head, let a supervisor follow.

        A slot's raylet is started after the head's host has answered: so the head's agent knows all that serve it.
        """
        generation = question["generation"]
        with self._doing:
            if message := self._fences.against_raylet(question):
                return {"ok": False, "message": message}
            if self._ray.running:
                same = self._ray.generation == generation
                message = f"the raylet of generation {self._ray.generation} still runs"
                return {"ok": True} if same else {"ok": False, "message": message}
            if question.get("head") and not self.beat.follow(*question["head"]):
                return {"ok": False, "message": f"the head's machine `{question['head'][0]}` does not answer this node"}
            if self.listener:
                self.listener.begin()
            self._member = question.get("member")
            self._clear_ray(whole=not question.get("supervisor") or self._is_new_cluster(generation))
            folder = str(self._folder)
            env = environment.ray(question["env"], folder, str(self._scratch), self._python)
            env[procs.MARK] = f"{self._spec['run']}:{self._spec['place']}:{generation}"
            argv = self._of_ray("ray_start", str(question.get("client", "-")), *question["argv"])
            here = self._scratch / f"g{generation}"  # Ray's agents hide their mark: their folder gives them away
            here.mkdir(exist_ok=True)
            self._ray.start(argv, env, folder=here, generation=generation)
            if question.get("supervisor"):
                self._supervised = (self._of_ray("supervisor", str(self._scratch), question["supervisor"]), env)
        self._children.wake()
        return {"ok": True}

    def _is_new_cluster(self, cluster: int) -> bool:
        """Whether a head is of another cluster than the one before it; then forget what that one has stored."""
        path = self._folder / CLUSTER
        if (files.read(path) or {"cluster": 0})["cluster"] == cluster:
            return False
        shutil.rmtree(self._folder / "gcs", ignore_errors=True)
        files.write(path, {"cluster": cluster})
        return True

    def _clear_ray(self, whole: bool) -> None:
        """Remove what an earlier Ray left in its folder. A head keeps its session: its storage knows it by name, but
        `ray start --head` refuses ("already running at") while the file that names the current cluster is there."""
        ray = self._scratch / "ray"
        if whole:
            shutil.rmtree(ray, ignore_errors=True)
        (ray / "ray_current_cluster").unlink(missing_ok=True)

    def kill(self, question: Json) -> Json:
        """Kill a scope; returns the processes that are left, none when two scans in a row were empty."""
        level, member, attempt = question["level"], question.get("member", ""), question.get("attempt", 0)
        if level != "node":
            with self._doing:  # a raylet that is just being started is there when this goes on, and is found
                self._fences.raise_to(level, member, question.get("generation", 0), attempt)
        until = ranks.others_began(self._folder, member, attempt) if level == "rank" else math.inf
        generation = question.get("generation", 0)
        scope = replace(
            procs.of_spec(self._spec), level=level, generation=generation, member=member, attempt=attempt, until=until
        )
        left = procs.kill(scope, os.getpid(), self._children.pids, question.get("grace", procs.GRACE_S))
        return {"ok": not left, "left": left}

    def signal(self, question: Json) -> Json:
        """Send a signal to every process of every rank here, or of those of one gang; returns to how many."""
        ours = {state["pid"] for state in ranks.living(self._folder)}
        number = signal.Signals[f"SIG{question['signal'].removeprefix('SIG')}"]
        gang = question.get("gang")
        found = [p for p in self._ranks_processes(gang) if p.pid not in ours]
        ranks.tell_to_stop(self._folder, gang)
        procs.send(found, number)
        return {"ok": True, "count": len(found)}

    def _ranks_processes(self, gang: str | None) -> list[procs.Process]:
        living = [state for state in ranks.living(self._folder) if gang is None or state["gang"] == gang]
        found: dict[int, procs.Process] = {}
        for member, attempt in {(state["member"], state["attempt"]) for state in living}:
            until = math.inf if gang is None else ranks.others_began(self._folder, member, attempt)
            scope = replace(procs.of_spec(self._spec), level="rank", member=member, attempt=attempt, until=until)
            found.update({p.pid: p for p in procs.scan(scope, os.getpid(), self._children.pids)})
        return list(found.values())

    @property
    def _python(self) -> str:
        """Return the interpreter that has Ray."""
        return str(self._interpreter.python) if self._interpreter else sys.executable

    def drive(self, question: Json) -> Json:
        """Begin a driver, once for an attempt: a rank under this agent, with the Python of the run's Ray."""
        label, spec = question["label"], environment.driver(question["spec"], self._base, self._folder, self._python)
        own = self._folder / "ranks" / label / str(spec["attempt"])
        with self._doing:
            if (own / "state.json").exists():
                return {"ok": True}
            own.mkdir(mode=0o700, parents=True, exist_ok=True)
            files.write(own / "spec.json", spec)
            argv = [sys.executable, "-EsS", PACKAGE, "rank", str(self._folder), label, str(spec["attempt"])]
            env = {**os.environ, procs.MARK: question["mark"]}
            log = own / "parent.log"
            parent = self._children.spawn(argv, env, folder=self._folder, log=log, ended=lambda _: None)
            if rank_actor.begun(parent, own):
                return {"ok": True}
        return {"ok": False, "message": f"driver `{label}` did not begin", "tail": logs.tail(log)}

    def environment(self, question: Json) -> Json:
        """Return what a rank's parent needs: the user's variables, where the secrets are, whom to live with, and for
        how long; nothing for a rank that was killed."""
        if "member" in question:
            message = self._fences.against_rank(question["member"], question["generation"], question["attempt"])
            if message:
                return {"ok": False, "message": message}
        life = {"agent": os.getpid(), "deadline": str(self._deadline)}
        return {"ok": True, "base": self._base, "secrets": str(self._secrets), **life}

    def supervisor(self, question: Json) -> Json:
        """Pass a question on to the supervisor of the head."""
        return self._ask_supervisor(question["question"], timeout=question["timeout"])

    def _ask_supervisor(self, question: Json, timeout: float) -> Json:
        try:
            return rpc.ask(self._scratch / "supervisor.sock", question, timeout)
        except (OSError, ValueError) as error:
            return {"ok": False, "message": f"the supervisor does not answer: {error}"}

    def tick(self) -> None:
        """Keep a supervisor beside a running head: start it, start it again, end it when the head has ended."""
        if self._supervised is None:
            return
        if self._supervisor.running:
            if not self._ray.running:  # it would wait ten minutes for the old head, and the new one needs its own
                self._supervisor.kill()
            return
        if self._ray.running and time.monotonic() >= self._supervisor_after:
            self._supervisor_after = time.monotonic() + SUPERVISOR_PAUSE_S
            argv, env = self._supervised
            threading.Thread(target=self._supervisor.start, args=(argv, env), daemon=True).start()

    def stop_itself(self, message: str) -> None:
        """Kill ranks and Ray, because others may already take this node for lost; one without a slot has none."""
        logging.warning("%s: ending ranks and Ray", message)
        if self._member is not None or self.listener:
            self.kill({"level": "node", "grace": 0})

    def cut_off(self) -> None:
        """End the head's Ray: most of the nodes that it serves cannot hear it, and others may take it for lost."""
        self.stop_itself("fewer than half of the nodes were heard")

    def stop(self, _: Json) -> Json:
        """Kill all of the run here and end; the lease goes with this process."""
        self._supervised = None
        answer = self.kill({"level": "node"})
        if answer["ok"]:
            self.beat.leave()
            clear(self._folder, self._spec)
            threading.Timer(0.1, self._end).start()
        return answer

    def _end(self) -> None:
        self._children.stopping.set()
        self._children.wake()


def _secrets_folder(scratch: Path) -> Path:
    """Return a folder of ours in memory, where there is such a place: secrets must not reach a disk."""
    memory = Path("/dev/shm")  # noqa: S108
    return files.private(memory / scratch.name) if memory.is_dir() and os.access(memory, os.W_OK) else scratch


def clear(folder: Path, spec: Json) -> None:
    """Remove what only a living run needs: sockets, secrets, all of Ray's, half an environment. Logs and exits stay."""
    clear_scratch(spec)
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(folder / "gcs")
    for useless in ("token", BEGAN, FENCES, CLUSTER):
        (folder / useless).unlink(missing_ok=True)
    if half := interpreter.wanted(folder, spec):
        half.forget()


def clear_scratch(spec: Json) -> None:
    """Remove the run's folders outside of its own."""
    scratch = Path(spec["scratch"])
    for useless in (Path("/dev/shm") / scratch.name, scratch):  # noqa: S108
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(useless)
