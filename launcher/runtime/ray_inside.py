"""Starts a part of a run's Ray in a container, whose image has that Ray, and follows it to its end.

The agent watches this process in place of the part, which ends with it (`ray_guard.py`).
"""

import os
import shutil
import sys
from pathlib import Path
from typing import cast

from . import agent_environment, environment, files, setups
from .containers import image_ray
from .containers.engines import EngineError
from .containers.enter import Place
from .containers.keep import spec_of
from .protocol import EnvironmentReply
from .protocol_files import WORKERS, WorkersFile

PACKAGE = str(Path(__file__).resolve().parent)


def main(argv: list[str]) -> int:
    """Run a part of Ray in the container of a group: `ray_inside FOLDER GROUP LOG PART ARGUMENT...`."""
    folder, group, log, part, *rest = argv
    try:
        return _run(Path(folder), group, log, part, rest)
    except (EngineError, OSError, ValueError) as error:
        print(f"nvlaunch: {error}", flush=True)
        return setups.NO_CONTAINER


def _run(folder: Path, group: str, log: str, part: str, rest: list[str]) -> int:
    agent, spec = files.agent_spec(folder), spec_of(folder, group)
    if agent is None or spec is None:
        raise EngineError(f"no container of `{group}` is known in `{folder}`")
    given = agent_environment.ask(agent)
    state, noted = setups.ready(folder, spec, Path(log))
    own = Path(given["secrets"]).parent / f"{part}.{os.getpid()}"
    own.mkdir(mode=0o700, exist_ok=True)
    env = image_ray.variables(os.environ, _of_user(folder, given) if part == "ray_start" else {})
    if "--head" in rest:
        rest, env = image_ray.of_head(rest, Path(agent["scratch"]), own.parent), {**env, **image_ray.SMALL_LOGS}
    program = Place(folder, spec, state, given["base"]).start(
        own,
        env,
        image_ray.guarded(noted["python"], PACKAGE, part, rest),
        log=log,
        umask=given.get("umask", 0o022),
        at=os.getcwd(),  # Ray's agents overwrite their mark: they are found by this folder
    )
    sys.stdout.flush()
    try:
        return program.wait()
    finally:
        shutil.rmtree(own, ignore_errors=True)


def _of_user(folder: Path, given: EnvironmentReply) -> dict[str, str]:
    """Return the variables and secrets of the task, which the workers of a driver run with; none for a head."""
    workers = cast("WorkersFile | None", files.read(folder / WORKERS))
    if workers is None:
        return {}
    secrets = environment.declared(files.read(Path(given["secrets"])) or {}, workers["secrets"])
    return {**environment.given(folder, workers["variables"]), **secrets}
