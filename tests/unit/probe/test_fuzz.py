"""Any output of a node is read and checked without an exception."""

import json
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, composite

from launcher.core.model.inventory import Access, Node, RackName
from launcher.core.model.nodeset import NodeName
from launcher.probe.check_node import check_node
from launcher.probe.check_slice import check_slice
from launcher.probe.findings import Finding
from launcher.probe.node_facts import Facts, parse_facts, probes, read_facts
from launcher.probe.nvidia import pci, smi_tree
from launcher.probe.nvidia.xid import MAX_XIDS, parse_xids
from launcher.probe.results import MARK, ProbeResult, Unknown
from tests.effort import drawn
from tests.unit.probe.test_corpus import CASES

NODE = Node(
    name=NodeName("n1"), rack=RackName("r1"), access=Access(address="10.0.0.1", python="/p"), accelerator="GB300"
)
PROBES = sorted(probes(NODE))
PRINTED = [path.read_text() for path in CASES]
ODD = [
    "",
    "\0",
    "\ud800",
    "N/A",
    "9" * 5000,
    "-1",
    "1e999",
    "[" * 3000,
    '{"a":' * 3000,
    "<a>" * 3000,
    " :" * 50,
    "\x1b[31m",
]
ODD += [
    '{"bytes": NaN, "free": -1, "seconds": 1e400}',
    '[1, null, {"pid": []}]',
    '{"user": {"nofile": 1, "memlock": {}, "nproc": {"hard": "x"}}, "groups": {}, "cores": -1}',
    '{"user": {"nofile": {}, "memlock": {}, "nproc": {"hard": 1e400}}, "groups": [1, {"limit": NaN, "name": 7}]}',
    '{"failed": {"step": 1}, "type": [], "source": 5}',
    '{"failed": [1, {"step": null, "errno": 5, "path": []}], "usable": []}',
    '{"jobs": {"17": 4, "": ""}, "adopted": 5, "installed": "x", "pam": []}',
    '{"nodes": {"0": 1, "1": {"connections": []}}}',
]


@composite
def texts(draw: DrawFn) -> str:
    """Real output, cut and stirred, or none at all."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.text(max_size=200))
    if kind == 1:
        return draw(st.sampled_from(ODD))
    printed = draw(st.sampled_from(PRINTED))
    start, end = sorted((draw(st.integers(0, len(printed))), draw(st.integers(0, len(printed)))))
    odd = draw(st.sampled_from(ODD)) if kind == 3 else ""
    return printed[:start] + odd + printed[end:]


@composite
def endings(draw: DrawFn) -> ProbeResult:
    return ProbeResult(
        rc=draw(st.sampled_from([0, 0, 0, 0, None, 1, 6, 127, -9])),
        out=draw(texts()),
        err=draw(texts()),
        elapsed=draw(st.floats(allow_nan=False, allow_infinity=False)),
        age=draw(st.floats(0, 100)),
        timed_out=draw(st.booleans()),
        dropped=draw(st.sampled_from([0, 0, 5])),
        lines=draw(st.integers(0, 3)),
    )


@drawn(60)
@given(st.dictionaries(st.sampled_from(PROBES), endings()))
def test_any_results_can_be_checked(answers: dict[str, ProbeResult]) -> None:
    found = parse_facts(answers, NODE, now=0.0)
    findings = check_node(found, NODE, ports=frozenset({1}))
    others = check_slice([(NODE, found), (replace(NODE, name=NodeName("n2")), found)])
    assert all(isinstance(finding, Finding) and finding.message for finding in (*findings, *others))


@drawn(50)
@given(
    st.one_of(
        st.binary(max_size=300),
        st.binary(max_size=300).map(lambda data: MARK + data),
        st.recursive(
            st.one_of(st.none(), st.booleans(), st.floats(), st.integers(), st.text(max_size=20)),
            lambda inner: st.one_of(
                st.lists(inner, max_size=3),
                st.dictionaries(st.sampled_from(["rc", "out", "age", "lines", "host", "date", "x"]), inner, max_size=5),
            ),
            max_leaves=12,
        ).map(lambda value: MARK + json.dumps(value).encode()),
    )
)
def test_any_bytes_from_a_node_can_be_read(output: bytes) -> None:
    found = read_facts(output, NODE, now=0.0)
    assert isinstance(found, Facts | Unknown)
    assert check_node(found, NODE)


@drawn(50)
@given(st.text(max_size=300))
def test_any_text_as_tree_and_as_address(text: str) -> None:
    found = smi_tree.from_xml(text)
    assert found is None or list(found.walk())
    assert list(smi_tree.from_text(text).walk())
    assert pci.canonical(text) is None or ":" in text


def test_deep_and_wide_output_is_bounded() -> None:
    deep = "".join(f"{' ' * at}key{at}\n" for at in range(3000))
    assert len(list(smi_tree.from_text(deep).walk())) <= 3001
    assert smi_tree.from_xml("<a>" * 50 + "</a>" * 50) is None
    storm = "[1.0] NVRM: Xid (PCI:0000:04:00): 31, pid=1, name=x\n" * 50_000
    assert len(parse_xids(storm)) == MAX_XIDS
