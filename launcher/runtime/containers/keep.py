"""Makes the containers of a run on a node, finds them again, and removes them."""

import contextlib
import fcntl
import os
import pwd
import resource
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, cast

from .. import files, procs, spawn
from ..protocol import Reply
from ..protocol_containers import CONTAINERS, ContainerSpec, ContainerState, SetUpFile
from ..protocol_files import AgentSpec
from .engines import ContainerEngine, Creation, EngineError, engine
from .images import NodeImage

MADE_OF = "container-images.json"
"""The file in a run's folder that says what its containers are made of, by group."""

REMOVE_S = 15.0
"""Seconds for an engine to remove containers: with those of a kill, within what a launcher waits for."""
LEFT = "containers-left"
"""The file in a run's folder whose containers could not be removed: the engine did not answer."""

# It waits for a line that nobody writes, with no program but the shell.
_HOLD = 'trap "exit 0" TERM; while :; do read -r line <"$1"; done'
_DEVICES = ("/dev/infiniband", "/dev/nvidia-caps-imex-channels")
_GPU = "/dev/nvidiactl"
_LIMITS = ("memlock", "nofile", "nproc", "stack", "core")
_RAISED = ("memlock", "nofile", "nproc")


def specs(folder: Path) -> list[ContainerSpec]:
    """Return the containers of a run on this node."""
    found: Any = files.read(folder / CONTAINERS)
    return cast("list[ContainerSpec]", found["containers"]) if found else []


def spec_of(folder: Path, group: str) -> ContainerSpec | None:
    """Return the container of a group; None where its programs run on the node itself."""
    return next((one for one in specs(folder) if one["group"] == group), None)


def states(scratch: str) -> Iterator[ContainerState]:
    """Return the states of the containers that were made for a run."""
    with contextlib.suppress(OSError):
        for path in sorted((Path(scratch) / procs.CONTAINERS).glob("*.json")):
            if found := files.read(path):
                yield cast("ContainerState", found)


def alive(state: ContainerState) -> bool:
    """Whether the process that holds a container lives."""
    process = procs.find(state["pid"])
    return process is not None and process.start == state["start"]


class Containers:
    """The containers of a run on this node. `base` has the variables of the node's user."""

    def __init__(self, folder: Path, agent: AgentSpec, base: Mapping[str, str]) -> None:
        self._folder = folder
        self._agent = agent
        self._base = base
        self._states = Path(agent["scratch"]) / procs.CONTAINERS

    def running(
        self, spec: ContainerSpec, stage: Callable[[str], None] = lambda _: None, *, make: bool = True
    ) -> ContainerState:
        """Return the state of a group's container, which runs now.

        One that lives is left alone, one that has stopped is started again, and one that is gone is made again from the
        same image, if `make`; it is not `set_up` then. EngineError says why none can run.
        """
        with self._locked(f"{spec['group']}.lock"):
            known = self._known(spec["group"])
            if known is not None and alive(known):
                return known
            here = engine(spec["engine"], self._base)
            if self._was_made(spec["group"]):
                stage("starting the container again")
                if here.start(self.name(spec["group"])):
                    return self._noted(spec, here)
            if not make:
                raise EngineError("the container is gone: it is made again, and `setup` runs, when a rank starts here")
            self._set_up(spec["group"]).unlink(missing_ok=True)  # an id may be a name, which the next one has too
            made_of = self._image(spec, here, stage)
            stage("making the container")
            try:
                here.create(self._creation(spec, made_of))
            except EngineError as error:
                if error.hung:
                    raise
                with contextlib.suppress(EngineError):  # one that did not start has its name
                    here.discard(self.name(spec["group"]), REMOVE_S)
                raise EngineError(f"cannot make a container of `{spec['image']}`: {error}") from None
            return self._noted(spec, here)

    def setting_up(self, group: str) -> AbstractContextManager[None]:
        """Return a block in which nobody else on this node runs the setup of a group."""
        return self._locked(f"{group}.setup.lock")

    def set_up(self, state: ContainerState) -> SetUpFile | None:
        """Return what was noted when the setup of a container had ended well; None where it has not.

        It is noted by the container's id: one that was made again, and whose setup was killed, is not set up.
        """
        found = cast("SetUpFile | None", files.read(self._set_up(state["group"])))
        return found if found is not None and found["id"] == state["id"] else None

    def note_set_up(self, state: ContainerState, python: str) -> SetUpFile:
        """Note that the setup of a container has ended well; return the note."""
        noted: SetUpFile = {"id": state["id"], "python": python}
        files.write(self._set_up(state["group"]), noted)
        return noted

    def _set_up(self, group: str) -> Path:
        return self._states / f"{group}.set-up"

    @contextlib.contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        self._states.mkdir(mode=0o700, exist_ok=True)
        with (self._states / name).open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def _known(self, group: str) -> ContainerState | None:
        found: Any = files.read(self._states / f"{group}.json")
        return cast("ContainerState | None", found)

    def _was_made(self, group: str) -> bool:
        return group in (files.read(self._folder / MADE_OF) or {})

    def _image(self, spec: ContainerSpec, here: ContainerEngine, stage: Callable[[str], None]) -> str:
        """Return what to make a container of; noted, so that one that vanished is made of the same."""
        noted = files.read(self._folder / MADE_OF) or {}
        if (known := noted.get(spec["group"])) and here.local(known):
            return str(known)
        made_of = NodeImage(spec, here, self._folder, Path(self._agent["socket"]), stage).ready()
        noted = files.read(self._folder / MADE_OF) or {}  # another group may have been noted meanwhile
        files.write(self._folder / MADE_OF, {**noted, spec["group"]: made_of})
        return made_of

    def name(self, group: str) -> str:
        """Return the name of a group's container: of this run and place alone, also where nodes share a machine."""
        return f"{Path(self._agent['scratch']).name}-{group}"

    def mark(self) -> str:
        """Return the mark of a container's own process."""
        return f"{self._agent['run']}:{self._agent['place']}:{procs.HELD}"

    def _noted(self, spec: ContainerSpec, here: ContainerEngine) -> ContainerState:
        """Return the state of a container that has just been started, and write it down; EngineError."""
        pid, identity = here.process(self.name(spec["group"]))
        process = procs.find(pid) if pid else None
        if process is None:
            raise EngineError(f"the container of `{spec['image']}` has ended at once: it needs a shell, `/bin/sh`")
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        state: ContainerState = {
            "group": spec["group"],
            "engine": spec["engine"],
            "name": self.name(spec["group"]),
            "id": identity,
            "pid": pid,
            "start": process.start,
            "uid": int(status["Uid"].split()[1]),
            "gid": int(status["Gid"].split()[1]),
        }
        self._check_owner(spec, state)
        files.write(self._states / f"{spec['group']}.json", state)
        return state

    def _check_owner(self, spec: ContainerSpec, state: ContainerState) -> None:
        """Refuse a container whose processes this user can neither see nor kill, unless nodes can be powered off."""
        if os.geteuid() in (0, state["uid"]) or spec["fence"]:
            return
        with contextlib.suppress(EngineError):
            engine(spec["engine"], self._base).discard(self.name(spec["group"]), REMOVE_S)
        raise EngineError(
            f"the container runs as user {state['uid']}, whose processes the user of this login ({os.geteuid()}) "
            "cannot kill: remove `user` of `container`, log in as root, or set `fence_command` in the inventory"
        )

    def _creation(self, spec: ContainerSpec, made_of: str) -> Creation:
        spawn.raise_limits()
        hold = self._states / f"{spec['group']}.hold"
        with contextlib.suppress(FileExistsError):
            os.mkfifo(hold, 0o644)
        mounts = tuple(self._mounts(spec))
        return Creation(
            name=self.name(spec["group"]),
            image=made_of,
            run=self._agent["run"],
            place=self._agent["place"],
            group=spec["group"],
            mark=self.mark(),
            user=spec["user"] or f"{os.geteuid()}:{os.getegid()}",
            groups=tuple(sorted(set(os.getgroups()) - {os.getegid()})) if spec["user"] is None else (),
            program=("sh", "-c", _HOLD, "nvlaunch", str(hold)),
            mounts=mounts,
            followed=propagating(Path("/proc/self/mountinfo").read_text(), [source for source, _, _ in mounts]),
            limits=tuple(_limits()),
            devices=tuple(path for path in _DEVICES if os.path.isdir(path) and os.listdir(path)),
            gpus=spec["gpus"] and os.path.exists(_GPU),
            options=tuple(spec["options"]),
        )

    def _mounts(self, spec: ContainerSpec) -> Iterator[tuple[str, str, bool]]:
        for path in (str(self._folder), self._agent["scratch"]):
            yield path, path, False
        for name in spec["shared"]:
            path = os.path.expanduser(name).rstrip("/")
            if os.path.exists(path):
                yield path, path, False
        for mount in spec["mounts"]:
            if not os.path.exists(mount["source"]):
                raise EngineError(f"`{mount['source']}` of `mounts` does not exist on this node")
            yield mount["source"], mount["target"], mount["read_only"]


def removed(folder: Path, agent: AgentSpec, base: Mapping[str, str]) -> Reply:
    """Remove the containers of a run here, and reply: not `ok` where one still runs, which is named.

    Whoever asks has killed what ran in them: an engine that does not answer keeps nothing but their records.
    """
    left: list[str] = []
    trouble = ""
    for name in sorted(
        {spec["engine"] for spec in specs(folder)} | {one["engine"] for one in states(agent["scratch"])}
    ):
        try:
            left += engine(name, base).remove(agent["run"], agent["place"], REMOVE_S)
        except EngineError as error:
            trouble = f"containers of the run are not removed yet: {error}"
    with contextlib.suppress(OSError):
        if trouble:
            (folder / LEFT).touch()
        else:
            (folder / LEFT).unlink(missing_ok=True)
    if left:
        return {"ok": False, "message": f"containers that still run: {', '.join(sorted(left))}"}
    reply: Reply = {"ok": True, "left": []}
    if trouble:
        reply["message"] = trouble
    return reply


def after_kill(level: str, reply: Reply, folder: Path, agent: AgentSpec, base: Mapping[str, str]) -> Reply:
    """Return the reply to a kill: after one of the whole node, the engine is asked for what marks may not show."""
    return {**reply, **removed(folder, agent, base)} if reply["ok"] and level == "node" else reply


def propagating(mountinfo: str, paths: Iterable[str]) -> frozenset[str]:
    """Return those paths whose file systems tell others of what is mounted there: engines refuse to follow the rest.

    That is so where systemd made `/` shared, as it does. `mountinfo` is that of proc(5).
    """
    told: dict[str, bool] = {}
    for line in mountinfo.splitlines():
        _, _, _, _, point, _, *rest = line.split(" ")
        optional = rest[: rest.index("-")]
        told[point.replace("\\040", " ")] = any(one.startswith(("shared:", "master:")) for one in optional)
    found: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        above = (str(one) for one in (Path(real), *Path(real).parents))
        if told.get(next((one for one in above if one in told), ""), False):
            found.add(path)
    return frozenset(found)


def _limits() -> Iterator[tuple[str, int, int]]:
    """Return the limits of this process as a container's: soft and hard, raised where an agent raises its own."""
    for name in _LIMITS:
        soft, hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name.upper()}"))
        yield name, (hard if name in _RAISED else soft), hard


def user_base() -> dict[str, str]:
    """Return the variables of this process for a client: of a program whose agent is gone."""
    entry = pwd.getpwuid(os.getuid())
    return {"HOME": entry.pw_dir, "USER": entry.pw_name, **os.environ}
