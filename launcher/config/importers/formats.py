"""The table of formats that can be imported; see the package for how to add one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum

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
from launcher.config.importers.collector import HostCollector


class InventoryFormat(Enum):
    """A format of inventories, by its name for `--as`."""

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


@dataclass(frozen=True, slots=True)
class Format:
    """The name of a format in messages, and its reader."""

    title: str
    read: Callable[[str, HostCollector], None]


FORMATS: Mapping[InventoryFormat, Format] = {
    InventoryFormat.SLURM_CONF: Format("a Slurm topology.conf", slurm_conf.read),
    InventoryFormat.SLURM_YAML: Format("a Slurm topology.yaml", slurm_yaml.read),
    InventoryFormat.SLURM_SHOW: Format("the output of `scontrol show topology`", slurm_conf.read),
    InventoryFormat.DOMAIN_MAP: Format("a map of hosts to ClusterUUIDs", domain_map.read),
    InventoryFormat.SKYPILOT: Format("a SkyPilot ssh_node_pools.yaml", skypilot_pools.read),
    InventoryFormat.DSTACK: Format("a dstack SSH fleet", dstack_fleet.read),
    InventoryFormat.ANSIBLE_INI: Format("an Ansible inventory (INI)", ansible_ini.read),
    InventoryFormat.ANSIBLE_YAML: Format("an Ansible inventory (YAML)", ansible_yaml.read),
    InventoryFormat.HOSTFILE: Format("a hostfile", hostfile.read),
    InventoryFormat.SSH_CONFIG: Format("an SSH configuration", ssh_config.read),
    InventoryFormat.KUBERNETES: Format("a list of Kubernetes nodes", kubernetes.read),
}
