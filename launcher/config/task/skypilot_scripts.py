"""Warnings about what scripts rely on and do not find here: SkyPilot's variables and folders, a Ray or a node alone."""

import re
from collections.abc import Mapping

from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.values import Values

# docs/source/running-jobs/environment-variables.rst of SkyPilot, without those that are set for ranks or setup here.
_UNSET: Mapping[str, str] = {
    "SKYPILOT_TASK_IDS": "use `SKYPILOT_TASK_ID`, the id of this run",
    "SKYPILOT_CLUSTER_INFO": "use `NVLAUNCH_RUN`, `NVLAUNCH_RACK` and `NVLAUNCH_DOMAIN`",
    "SKYPILOT_INTERNAL_JOB_ID": "use `NVLAUNCH_TASK_ID`, the id of the run",
    "SKYPILOT_MANAGED_JOB_ID": "use `NVLAUNCH_TASK_ID`, the id of the run",
    "SKYPILOT_ROOT_JOB_ID": "use `NVLAUNCH_TASK_ID`, the id of the run",
    "SKYPILOT_USER": "add it to `envs`",
    "SKYPILOT_USER_ID": "add it to `envs`",
    "SKYPILOT_JOB_RANK": "set it for each run with `--env SKYPILOT_JOB_RANK=N`",
    "SKYPILOT_NUM_JOBS": "set it for each run with `--env SKYPILOT_NUM_JOBS=N`",
    "SKYPILOT_JOBGROUP_NAME": "use `NVLAUNCH_GROUP_<NAME>_IPS`, the addresses of a group",
    "SKYPILOT_SERVE_REPLICA_ID": "use `NVLAUNCH_NODE_RANK`, the number of the rank",
}
_HOME = re.compile(r"(~|\$\{?HOME\}?)/sky_workdir\b")
_HOME_HINT = "remove `~/sky_workdir` from the path: commands start in the workdir"
_TEMPLATES = re.compile(r"(~|\$\{?HOME\}?)/sky_templates\b")
_STOP = re.compile(r"^[^#\n]*\bray\s+stop\b", re.MULTILINE)
_START = re.compile(r"^[^#\n]*\bray\s+start\b", re.MULTILINE)
_STANDALONE = re.compile(r"^[^#]*\btorchrun\b.*--standalone\b")
_NNODES = re.compile(r"--nnodes\b")
_ALONE = "add `--nnodes 1` for a program on each node, or remove `--standalone` for one over all nodes"
_DRIVER = "write `driver:` instead of `run:`: it starts once, on the Ray cluster that the run has already"


def check_scripts(own: Values, envs: Mapping[str, str], out: Diagnostics) -> None:
    """Warn of SkyPilot's variables and folders in the scripts of a group, and of commands that manage Ray."""
    for name in ("setup", "run", "driver"):
        script, mark = own.get(name, str) or "", own.mark_of(name)
        for variable in sorted(set(re.findall(r"\bSKYPILOT_[A-Z_]+\b", script))):
            if variable in _UNSET and variable not in envs:
                out.warn(mark, f"`{name}` uses `{variable}`, which is not set", _UNSET[variable])
        if _HOME.search(script):
            out.warn(mark, f"`{name}` uses `~/sky_workdir`, which does not exist", _HOME_HINT)
        if _TEMPLATES.search(script):
            out.warn(mark, f"`{name}` uses `~/sky_templates`, which does not exist", _DRIVER)
        if _STOP.search(script):
            what = f"`{name}` runs `ray stop`, which ends every Ray process of the user: those of this run too"
            out.warn(mark, what, "remove it: nothing of an earlier run is left when ranks start")
        if _START.search(script):
            out.warn(mark, f"`{name}` runs `ray start`: a second Ray beside that of the run", _DRIVER)
        if name != "setup" and _waits_for_others(script) and _several_nodes(own) and "PET_NNODES" not in envs:
            out.warn(mark, f"`{name}` runs `torchrun --standalone`, which waits for the other nodes for ever", _ALONE)


def _waits_for_others(script: str) -> bool:
    """Whether torchrun meets itself alone in a script, and is not told that it is one node."""
    lines = script.replace("\\\n", " ").splitlines()
    return any(_STANDALONE.search(line) and not _NNODES.search(line) for line in lines)


def _several_nodes(own: Values) -> bool:
    return (own.get("num_nodes", int) or 1) > 1 or own.has("topology")
