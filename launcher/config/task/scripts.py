"""What a script of SkyPilot's relies on and does not find here: it is told before the script fails at night."""

import re
from collections.abc import Mapping

from launcher.config.yaml.reading import Reading, Values

# docs/source/running-jobs/environment-variables.rst of SkyPilot; those that are not here are set for ranks or setup.
_UNSET: Mapping[str, str] = {
    "SKYPILOT_TASK_IDS": "`SKYPILOT_TASK_ID` is the one of this run",
    "SKYPILOT_CLUSTER_INFO": "`NVLAUNCH_RUN`, `NVLAUNCH_RACK` and `NVLAUNCH_DOMAIN` say what runs where",
    "SKYPILOT_INTERNAL_JOB_ID": "`NVLAUNCH_TASK_ID` tells runs apart",
    "SKYPILOT_MANAGED_JOB_ID": "`NVLAUNCH_TASK_ID` tells runs apart",
    "SKYPILOT_ROOT_JOB_ID": "`NVLAUNCH_TASK_ID` tells runs apart",
    "SKYPILOT_USER": "add it to `envs`",
    "SKYPILOT_USER_ID": "add it to `envs`",
    "SKYPILOT_JOB_RANK": "`--env SKYPILOT_JOB_RANK=N` sets it for one run of many",
    "SKYPILOT_NUM_JOBS": "`--env SKYPILOT_NUM_JOBS=N` sets it for one run of many",
    "SKYPILOT_JOBGROUP_NAME": "`NVLAUNCH_GROUP_<NAME>_IPS` has the addresses of another group",
    "SKYPILOT_SERVE_REPLICA_ID": "`NVLAUNCH_NODE_RANK` numbers the ranks",
}
_HOME = re.compile(r"(~|\$\{?HOME\}?)/sky_workdir\b")
_HOME_HINT = "the workdir lies in the run's folder, and scripts start in it: name its files by relative paths"


def check_scripts(own: Values, envs: Mapping[str, str], out: Reading) -> None:
    """Note variables and folders of SkyPilot's that the scripts of a group name and will not find."""
    for name in ("setup", "run", "driver"):
        script, mark = own.get(name, str) or "", own.mark_of(name)
        for variable in sorted(set(re.findall(r"\bSKYPILOT_[A-Z_]+\b", script))):
            if variable in _UNSET and variable not in envs:
                out.warn(mark, f"`{name}` uses `{variable}`, which is not set", _UNSET[variable])
        if _HOME.search(script):
            out.warn(mark, f"`{name}` uses `~/sky_workdir`, which is not there", _HOME_HINT)
