"""Any inventory of another program is imported or refused with a SpecError; our reader accepts what is imported."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.config.importers.formats import InventoryFormat
from launcher.config.importers.read import import_file
from launcher.config.importers.write import inventory_text
from launcher.config.inventory.read import parse_inventory
from launcher.errors import SpecError
from tests.effort import drawn

FUZZ = drawn(100)
UUIDS = ("5e797fc6-0f46-421a-8724-0e102c0f723c", "00000000-0000-0000-0000-000000000000")
HOSTS = [
    "n1",
    "N1",
    "n[01-03]",
    "n[1-999999999]",
    "r[1-2]n[1-2]",
    "w[01:03].x",
    "[a:f]",
    "10.0.0.1",
    "fd00::1",
    "[fd00::1]:22",
    "u@h",
    "-oProxyCommand=x",
    "${x}",
    "{{x}}",
    "n1,n2",
    "h:8",
    "h:2222",
    "*",
    "!n1",
    "localhost",
    "é",
]
HOSTS = [*HOSTS, "a" * 70]
SLURM = [
    *[
        "BlockName=b1",
        "BlockName=-",
        "SwitchName=s0",
        "SwitchName=s1",
        "Switches=s[0-1]",
        "Switches=s1",
        "BlockSizes=18,3",
        "BlockSizes=",
    ],
    *["Nodes=ALL", "#BlockName=b4", "BlockIndex=0", "Level=1"],
    "# ClusterUUID and CliqueID: ",
    "\\\n",
    *UUIDS,
    *(f"Nodes={host}" for host in HOSTS),
]
SLURM_YAML = """
- topology: t
  cluster_default: true
  flat: true
  block:
    block_sizes: [18]
    blocks:
    - block: b1
      nodes: n[1-3]
  tree:
    switches:
    - switch: s1
      children: s[1-2]
      nodes: [x]
apiVersion: x
- []
"""
SKYPILOT = """
p:
  hosts:
  - n1
  - {ip: n2, user: u}
  - {user: u}
  password: x
  user: -x
  identity_file: ~/k
  hosts: n1
q: {hosts: [n1]}
- []
"""
DSTACK = """
type: fleet
type: task
ssh_config:
  hosts:
  - n1
  - {hostname: n2, port: x}
  - {hostname: [n], internal_ip: 1.1.1.1}
  port: 99999
  proxy_jump: {hostname: j, user: u, identity_file: k}
env: [A=B]
"""
ANSIBLE_YAML = """
all:
  hosts:
    n1:
    n[1:3]: {ansible_host: 10.0.0.1}
  children:
    all:
    g:
      vars: {rack: r1, p: !vault x}
      hosts: {n2: }
  vars: [x]
  hosts: n1
"""
KUBERNETES = """
kind: List
kind: Node
items:
items: {}
- {kind: Pod}
- kind: Node
  metadata:
    name: n1
    labels: {nvidia.com/gpu.clique: 5e797fc6-0f46-421a-8724-0e102c0f723c.1, nvidia.com/gpu.count: 4}
  spec: {unschedulable: true}
  status: {addresses: [{type: InternalIP, address: 10.0.0.1}], capacity: {nvidia.com/gpu: 4}}
"""
SSH_CONFIG = """
Host
Host=
Host n1 !n1
Match all
Match exec x
Include x
HostName %h.x
HostName 127.0.0.1
Port 99999
User -x
ProxyJump j,k:22
ProxyJump none
ProxyCommand ssh -W %h:%p b
IdentityFile "a b"
IdentityFile %r
"""
ANSIBLE_INI = [
    "[g]",
    "[g:children]",
    "[h:children]",
    "[g:vars]",
    "[all:vars]",
    "[g:x]",
    "g",
    "h",
    "ansible_host=10.0.0.1",
    "rack=r1",
    "ansible_port=x",
    "ansible_user=-u",
    "ansible_ssh_common_args='-oProxyJump=b'",
    "ansible_connection=local",
    "'",
    "x",
    ";",
]
WORDS = {
    InventoryFormat.SLURM_CONF: SLURM,
    InventoryFormat.SLURM_SHOW: SLURM,
    InventoryFormat.SLURM_YAML: SLURM_YAML.splitlines(keepends=True),
    InventoryFormat.DOMAIN_MAP: [": ", ",", " 32766", ".1", *UUIDS],
    InventoryFormat.SKYPILOT: SKYPILOT.splitlines(keepends=True),
    InventoryFormat.DSTACK: DSTACK.splitlines(keepends=True),
    InventoryFormat.ANSIBLE_INI: ANSIBLE_INI,
    InventoryFormat.ANSIBLE_YAML: ANSIBLE_YAML.splitlines(keepends=True),
    InventoryFormat.HOSTFILE: [
        *["slots=4", "slots=0", "slots=x", "max_slots=3", "slots=128", ":", "#", "4", "user@", "name"],
        "slots = 4",
    ],
    InventoryFormat.SSH_CONFIG: SSH_CONFIG.splitlines(keepends=True),
    InventoryFormat.KUBERNETES: KUBERNETES.splitlines(keepends=True),
}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("foreign") / "given"


def check(path: Path, text: str | bytes, kind: InventoryFormat | None) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    try:
        found = import_file(path, kind)
    except SpecError:
        return
    written, _ = inventory_text(found)
    read = parse_inventory(written, Path("inventory.yaml"))
    assert {node.name for node in read.nodes} == {host.name for host in found.hosts}
    told = {host.name: host.domain for host in found.hosts}
    assert all(node.domain == told[node.name] for node in read.nodes)


def texts(kind: InventoryFormat) -> st.SearchStrategy[str]:
    parts = st.sampled_from([*WORDS[kind], *HOSTS, " ", " ", "\n", "\n", "\r\n", "\t", "#", "="])
    return st.lists(parts, max_size=25).map("".join)


@pytest.mark.parametrize("kind", InventoryFormat, ids=lambda kind: kind.value)
def test_any_text_with_words_of_the_format(path: Path, kind: InventoryFormat) -> None:
    @FUZZ
    @given(texts(kind))
    def fuzz(text: str) -> None:
        check(path, text, kind)

    fuzz()


def test_names_too_long_for_one_key_are_split(path: Path) -> None:
    check(path, "[g:x][g:x][g:x]\nfd00::1", InventoryFormat.ANSIBLE_INI)


@FUZZ
@given(st.sampled_from(InventoryFormat).flatmap(texts))
def test_any_text_with_a_detected_format(path: Path, text: str) -> None:
    check(path, text, None)


@FUZZ
@given(st.text(max_size=60) | st.binary(max_size=60), st.sampled_from([None, *InventoryFormat]))
def test_any_text(path: Path, text: str | bytes, kind: InventoryFormat | None) -> None:
    check(path, text, kind)


KEYS = ("kind", "items", "metadata", "name", "labels", "status", "addresses", "conditions", "spec")
values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@FUZZ
@given(values)
def test_any_json_as_kubernetes_nodes(path: Path, value: object) -> None:
    check(path, json.dumps({"kind": "List", "items": [value]}), InventoryFormat.KUBERNETES)
