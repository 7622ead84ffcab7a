"""A foreign file to what it says of machines: the kind found out, every mistake at once, every remark with its line."""

from collections.abc import Callable
from pathlib import Path

from launcher.config.importers import (
    ansible_ini,
    ansible_yaml,
    domain_map,
    dstack_fleet,
    hostfile,
    kubernetes,
    skypilot_pools,
    slurm_conf,
    slurm_yaml,
    ssh_config,
)
from launcher.config.importers.detect import detect
from launcher.config.importers.found import Foreign, Imported
from launcher.config.importers.roster import Roster
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.reading import Reading
from launcher.config.yaml.source import MAX_BYTES as TEXT_BYTES
from launcher.config.yaml.source import read_text, refuse

MAX_BYTES = 64_000_000
"""`kubectl get nodes -o json` takes some 20 KB for each node."""

_READERS: dict[Foreign, Callable[[str, Roster], None]] = {
    Foreign.SLURM_CONF: slurm_conf.read,
    Foreign.SLURM_SHOW: slurm_conf.read,
    Foreign.SLURM_YAML: slurm_yaml.read,
    Foreign.DOMAIN_MAP: domain_map.read,
    Foreign.SKYPILOT: skypilot_pools.read,
    Foreign.DSTACK: dstack_fleet.read,
    Foreign.ANSIBLE_INI: ansible_ini.read,
    Foreign.ANSIBLE_YAML: ansible_yaml.read,
    Foreign.HOSTFILE: hostfile.read,
    Foreign.SSH_CONFIG: ssh_config.read,
    Foreign.KUBERNETES: kubernetes.read,
}


def read_foreign(path: Path, kind: Foreign | None = None) -> Imported:
    """Return what a file, or with `-` stdin, says of machines; SpecError with every mistake, or for no known kind."""
    stdin = str(path) == "-"
    text = read_text(Path("/dev/stdin") if stdin else path, what="list of machines", limit=MAX_BYTES)
    where = "stdin" if stdin else str(path)
    if len(text) > TEXT_BYTES and not text.lstrip().startswith("{"):
        what = f"the file is larger than {TEXT_BYTES // 1_000_000} MB: this is not a list of machines"
        raise refuse(where, what, hint="nodes of Kubernetes may be more, as `kubectl get nodes -o json` writes them")
    return parse_foreign(text, where, kind)


def parse_foreign(text: str, where: str, kind: Foreign | None = None) -> Imported:
    """Return the same of a text; `where` is what messages call it."""
    chosen = kind or detect(text, where)
    out = Reading(where)
    roster = Roster(out)
    _READERS[chosen](text, roster)
    if not roster.hosts and not out.wrong():
        what = f"{chosen.words} that names no machine" if not out.warnings() else "no machine of the file can be used"
        hint = "; ".join(f"line {one.line}: {one.what}" for one in out.warnings()[:3])
        out.mistake(Mark(), what, hint or "a list of machines has at least one")
    out.finish()
    return Imported(kind=chosen, source=where, hosts=roster.hosts, levels=roster.levels, remarks=out.warnings())
