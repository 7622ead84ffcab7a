"""Whatever a foreign inventory holds, it is read or refused with a SpecError; and what is read, our own reader takes."""

import json
from pathlib import Path

import pytest
from hypothesis import given

from launcher.errors import SpecError
from launcher.spec.foreign.found import Foreign
from launcher.spec.foreign.read import read_foreign
from launcher.spec.foreign.write import inventory_text
from launcher.spec.inventory import parse_inventory
from tests.effort import drawn

FUZZ = drawn(100)
UUIDS = ("5e797fc6-0f46-421a-8724-0e102c0f723c", "00000000-0000-0000-0000-000000000000")
HOSTS = (
    "n1", "N1", "n[01-03]", "n[1-999999999]", "r[1-2]n[1-2]", "w[01:03].x", "[a:f]", "10.0.0.1", "fd00::1", "[fd00::1]:22",
    "u@h", "-oProxyCommand=x", "a" * 70, "${x}", "{{ x }}", "n1,n2", "h:8", "h:2222", "*", "!n1", "localhost", "é", "",
)  # fmt: skip
WORDS = {
    Foreign.SLURM_CONF: (
        "BlockName=b1", "BlockName=-", "SwitchName=s0", "SwitchName=s1", "Switches=s[0-1]", "Switches=s1", "BlockSizes=18,3",
        "BlockSizes=", "Nodes=ALL", "#BlockName=b4", "# ClusterUUID and CliqueID: ", "BlockIndex=0", "Level=1", "\\\n",
        *(f"Nodes={host}" for host in HOSTS),
    ),
    Foreign.SLURM_YAML: (
        "- topology: t\n", "  cluster_default: true\n", "  block:\n", "    block_sizes: [18]\n", "    blocks:\n", "  flat: true\n",
        "    - block: b1\n", "      nodes: n[1-3]\n", "  tree:\n", "    switches:\n", "    - switch: s1\n", "      children: s[1-2]\n",
        "      nodes: [x]\n", "apiVersion: x\n", "- []\n",
    ),
    Foreign.DOMAIN_MAP: (": ", ",", " 32766", ".1", *UUIDS),
    Foreign.SKYPILOT: (
        "p: \n", "q: {hosts: [n1]}\n", "  hosts:\n", "  - n1\n", "  - {ip: n2, user: u}\n", "  - {user: u}\n", "  password: x\n",
        "  user: -x\n", "  identity_file: ~/k\n", "  hosts: n1\n", "- []\n",
    ),
    Foreign.DSTACK: (
        "type: fleet\n", "type: task\n", "ssh_config:\n", "  hosts:\n", "  - n1\n", "  - {hostname: n2, port: x}\n", "  port: 99999\n",
        "  - {hostname: [n], internal_ip: 1.1.1.1}\n", "  proxy_jump: {hostname: j, user: u, identity_file: k}\n", "env: [A=B]\n",
    ),
    Foreign.ANSIBLE_INI: (
        "[g]", "[g:children]", "[h:children]", "[g:vars]", "[all:vars]", "[g:x]", "g", "h", "ansible_host=10.0.0.1", "rack=r1",
        "ansible_port=x", "ansible_user=-u", "ansible_ssh_common_args='-o ProxyJump=b'", "ansible_connection=local", "'", "x", ";",
    ),
    Foreign.ANSIBLE_YAML: (
        "all:\n", "  hosts:\n", "    n1:\n", "    n[1:3]: {ansible_host: 10.0.0.1}\n", "  children:\n", "    all:\n", "    g:\n",
        "      vars: {rack: r1, p: !vault x}\n", "      hosts: {n2: }\n", "  vars: [x]\n", "  hosts: n1\n",
    ),
    Foreign.HOSTFILE: ("slots=4", "slots = 4", "slots=0", "slots=x", "max_slots=3", "slots=128", ":", "#", "4", "user@", "name"),
    Foreign.SSH_CONFIG: (
        "Host ", "Host=", "Match all", "Match exec x", "Include x", "HostName %h.x", "HostName 127.0.0.1", "Port 99999", "User -x",
        "ProxyJump j,k:22", "ProxyJump none", "ProxyCommand ssh -W %h:%p b", 'IdentityFile "a b"', "IdentityFile %r", "Host n1 !n1",
    ),
    Foreign.KUBERNETES: (
        "kind: List\n", "kind: Node\n", "items:\n", "- kind: Node\n", "- {kind: Pod}\n", "  metadata:\n", "    name: n1\n", "items: {}\n",
        "    labels: {nvidia.com/gpu.clique: 5e797fc6-0f46-421a-8724-0e102c0f723c.1, nvidia.com/gpu.count: 4}\n", "  spec: {unschedulable: true}\n",
        "  status: {addresses: [{type: InternalIP, address: 10.0.0.1}], capacity: {nvidia.com/gpu: 4}}\n",
    ),
}  # fmt: skip
WORDS[Foreign.SLURM_SHOW] = WORDS[Foreign.SLURM_CONF]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("foreign") / "given"


def check(path: Path, text: str | bytes, kind: Foreign | None) -> None:
    path.write_bytes(text if isinstance(text, bytes) else text.encode(errors="surrogatepass"))
    try:
        found = read_foreign(path, kind)
    except SpecError as error:
        assert error.mistakes
        return
    written, _ = inventory_text(found)
    read = parse_inventory(written, Path("inventory.yaml"))
    assert {node.name for node in read.nodes} == {host.name for host in found.hosts}
    told = {host.name: host.domain for host in found.hosts}
    assert all(node.domain == told[node.name] for node in read.nodes)


def texts(kind: Foreign) -> st.SearchStrategy[str]:
    parts = st.sampled_from([*WORDS[kind], *HOSTS, " ", " ", "\n", "\n", "\r\n", "\t", "#", "="])
    return st.lists(parts, max_size=25).map("".join)


@pytest.mark.parametrize("kind", Foreign, ids=lambda kind: kind.value)
def test_any_text_of_a_kinds_own_words(path: Path, kind: Foreign) -> None:
    @FUZZ
    @given(texts(kind))
    def fuzz(text: str) -> None:
        check(path, text, kind)

    fuzz()


@FUZZ
@given(st.sampled_from(Foreign).flatmap(texts))
def test_any_text_whose_kind_is_found_out(path: Path, text: str) -> None:
    check(path, text, None)


@FUZZ
@given(st.text(max_size=60) | st.binary(max_size=60), st.sampled_from([None, *Foreign]))
def test_any_text_at_all(path: Path, text: str | bytes, kind: Foreign | None) -> None:
    check(path, text, kind)


KEYS = ("kind", "items", "metadata", "name", "labels", "status", "addresses", "conditions", "spec")
values = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=20,
)


@FUZZ
@given(values)
def test_any_json_given_as_kubernetes_nodes(path: Path, value: object) -> None:
    check(path, json.dumps({"kind": "List", "items": [value]}), Foreign.KUBERNETES)
