"""Runs the setups of the groups on one node, one after the other.

Each has its own group's variables and secrets. A group with a container gets it first, and its setup runs inside.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import cast

from . import agent_environment, environment, files, stage, start_files
from .containers import image_ray
from .containers.engines import EngineError
from .containers.enter import Place
from .containers.keep import Containers, spec_of, specs
from .protocol_containers import ContainerSpec, ContainerState, SetUpFile
from .protocol_files import AgentSpec, SetupStep

SETUPS = "setups.json"
"""The file in a run's folder that lists them."""

NO_AGENT = 4
NO_CONTAINER = 5
LOG = Path("log", "provision.log")


def main(argv: list[str]) -> int:
    """Make the containers of a folder and run its setups: `setups FOLDER`.

    The first that fails ends it with its own exit status.
    """
    folder = Path(argv[0])
    agent = files.agent_spec(folder)
    if agent is None:
        return NO_AGENT
    try:
        node = _Node(folder, agent)
    except (OSError, ValueError) as error:
        print(f"nvlaunch: {error}", flush=True)
        return NO_AGENT
    made: dict[str, ContainerState] = {}
    try:
        for each in specs(folder):
            made[each["group"]] = node.containers.running(each, node.stage)
    except (EngineError, OSError, ValueError) as error:
        print(f"nvlaunch: {error}", flush=True)
        return NO_CONTAINER
    node.stage("")
    for setup in node.steps():
        group = setup["variables"]["group"]
        spec = spec_of(folder, group)
        code = node.run(setup) if spec is None else node.inside(setup, spec, made[group], folder / LOG)
        if code != 0:
            return code if code > 0 else 128 - code
    try:
        for each in specs(folder):
            node.note(each, made[each["group"]])
    except EngineError as error:
        print(f"nvlaunch: {error}", flush=True)
        return NO_CONTAINER
    return 0


def ready(folder: Path, spec: ContainerSpec, log: Path) -> tuple[ContainerState, SetUpFile]:
    """Return the container of a group, which runs, and in which the group's setup has ended well; EngineError.

    It is started or made again where it has ended, and `setup` runs in one that was made again.
    """
    agent = files.agent_spec(folder)
    if agent is None:
        raise EngineError(f"no `agent.json` in `{folder}`")
    node = _Node(folder, agent)
    with node.containers.setting_up(spec["group"]):
        state = node.containers.running(spec)
        if (known := node.containers.set_up(state)) is not None:
            return state, known
        for setup in node.steps():
            if setup["variables"]["group"] == spec["group"] and (code := node.inside(setup, spec, state, log)):
                raise EngineError(f"`setup` of the container that was made again ended with {code}")
        return state, node.note(spec, state)


class _Node:
    """A run's folder on this node, and what its agent gives programs."""

    def __init__(self, folder: Path, agent: AgentSpec) -> None:
        self._folder = folder
        self._given = agent_environment.ask(agent)
        self._secrets = files.read(Path(self._given["secrets"])) or {}
        self._agent = agent

    @property
    def containers(self) -> Containers:
        """Return the containers of the run here."""
        return Containers(self._folder, self._agent, self._given["base"])

    def stage(self, message: str) -> None:
        """Say what is being done."""
        stage.write(self._folder, message)

    def steps(self) -> list[SetupStep]:
        """Return the setups of the folder."""
        return cast("list[SetupStep]", (files.read(self._folder / SETUPS) or {"setups": []})["setups"])

    def run(self, setup: SetupStep) -> int:
        """Run a setup on the node itself; return its exit code."""
        given = self._given
        start = start_files.of_agent(given, os.environ[environment.MARK])
        if start.trouble:
            print(f"nvlaunch: {start.trouble}", flush=True)
        env = {**start.script, **start.env, **self._variables(setup)}
        argv = [start_files.bash(given["base"]), str(self._folder / setup["script"])]
        return subprocess.run(argv, env=env, umask=start.umask).returncode

    def inside(self, setup: SetupStep, spec: ContainerSpec, state: ContainerState, log: Path) -> int:
        """Run a setup in the container of its group; return its exit code."""
        own = Path(self._given["secrets"]).parent / f"setup.{spec['group']}.{os.getpid()}"
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        place = Place(self._folder, spec, state, self._given["base"])
        argv = ["bash", str(self._folder / setup["script"])]
        try:
            umask = self._given.get("umask", 0o022)
            program = place.start(own, self._variables(setup), argv, log=str(log), umask=umask)
        except EngineError as error:
            print(f"nvlaunch: {error}", file=sys.stderr, flush=True)
            return NO_CONTAINER
        else:
            return program.wait()
        finally:
            shutil.rmtree(own, ignore_errors=True)

    def note(self, spec: ContainerSpec, state: ContainerState) -> SetUpFile:
        """Note that a group's container is set up; EngineError where it has to have Ray, and has not the right one."""
        python = ""
        if spec["ray"]:
            own = Path(self._given["secrets"]).parent / f"ray.{spec['group']}.{os.getpid()}"
            place = Place(self._folder, spec, state, self._given["base"])
            python = image_ray.find(place, own, os.environ[environment.MARK], self._agent["ray"])
        return self.containers.note_set_up(state, python)

    def _variables(self, setup: SetupStep) -> dict[str, str]:
        return {
            **environment.whole(self._folder, setup["variables"]),
            **environment.declared(self._secrets, setup.get("secrets")),
            environment.MARK: os.environ[environment.MARK],
        }
