"""What a foreign inventory says of machines, before any of it is ours."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from launcher.errors import Mistake


class Foreign(Enum):
    """The kinds of inventory that can be read."""

    SLURM_CONF = "slurm-conf"
    SLURM_YAML = "slurm-yaml"
    SLURM_SHOW = "slurm-show"
    DOMAIN_MAP = "domain-map"
    SKYPILOT = "skypilot"
    DSTACK = "dstack"
    ANSIBLE_INI = "ansible-ini"
    ANSIBLE_YAML = "ansible-yaml"
    HOSTFILE = "hostfile"
    SSH_CONFIG = "ssh-config"
    KUBERNETES = "kubernetes"

    @property
    def words(self) -> str:
        """Return what to call it in a sentence."""
        return _WORDS[self]


_WORDS = {
    Foreign.SLURM_CONF: "a Slurm topology.conf",
    Foreign.SLURM_YAML: "a Slurm topology.yaml",
    Foreign.SLURM_SHOW: "the output of `scontrol show topology`",
    Foreign.DOMAIN_MAP: "a map of hosts to ClusterUUIDs",
    Foreign.SKYPILOT: "a SkyPilot ssh_node_pools.yaml",
    Foreign.DSTACK: "a dstack SSH fleet",
    Foreign.ANSIBLE_INI: "an Ansible inventory (INI)",
    Foreign.ANSIBLE_YAML: "an Ansible inventory (YAML)",
    Foreign.HOSTFILE: "a hostfile",
    Foreign.SSH_CONFIG: "an SSH configuration",
    Foreign.KUBERNETES: "a list of Kubernetes nodes",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """One machine as a file speaks of it, first on `line`; None is what the file does not say."""

    name: str
    line: int = 0
    address: str | None = None
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    proxy_jump: str | None = None
    rack: str | None = None
    domain: str | None = None
    gpus: int | None = None
    accelerator: str | None = None
    drained: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """What came of a file: its hosts, the levels above their racks (coarse to fine), and what is to be said of it."""

    kind: Foreign
    source: str
    hosts: tuple[Host, ...]
    levels: tuple[str, ...]
    remarks: tuple[Mistake, ...]

    @property
    def rackless(self) -> tuple[str, ...]:
        """Return the hosts whose rack the file does not tell."""
        return tuple(host.name for host in self.hosts if host.rack is None)
