"""Signs of bad health, and the symptom of each."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import GpuDriver
from launcher.core.model.observation import Health, Symptom
from launcher.probe import health
from launcher.probe.results import ProbeResult
from tests.facts import NODE

CORPUS = Path(__file__).parents[2] / "corpus" / "probe"
GIB = 1024**3
BEGAN = 50.0
NETIR = "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"
RLW = "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000000)"


def said(value: object) -> ProbeResult:
    return ProbeResult(rc=0, out=json.dumps(value))


def smi(name: str = "580-healthy") -> ProbeResult:
    case = json.loads((CORPUS / "nvidia_smi" / f"{name}.json").read_text())
    return ProbeResult(out=(CORPUS / "nvidia_smi" / f"{name}.out").read_text(), **case["ran"])


def log(*lines: str, at: float = 100.0) -> ProbeResult:
    text = "".join(f"[  {at:.1f}] NVRM: Xid (PCI:0008:01:00): {line}\n" for line in lines)
    return ProbeResult(rc=0, out=text, lines=9)


def space(path: str, **changed: object) -> ProbeResult:
    base = {"path": path, "at": path, "bytes": 100 * GIB, "free": 50 * GIB, "inodes": 9999, "free_inodes": 999}
    return said({**base, "writable": True, "read_only": False, **changed})


def well(**changed: ProbeResult) -> dict[str, ProbeResult]:
    host = {"hostname": "n", "machine": "x", "kernel": "6", "boot_id": "b1", "uptime": 9000.0, "user": "u", "uid": 1}
    answers = {
        "host": said(host),
        "nvidia_smi": smi(),
        "journal": log(),
        "memory": said({"total": 100 * GIB, "available": 50 * GIB, "stalled": 0.0}),
        "began": said(json.dumps({"boot_id": "b1", "at": BEGAN})),
        **{f"space {path}": space(path) for path in ("/", "/tmp", "~", "/dev/shm")},
    }
    return {**answers, **changed}


def judged(answers: dict[str, ProbeResult]) -> Health:
    # Some of the recorded trays have two GPUs.
    count = answers["nvidia_smi"].out.count("<gpu id=") if "nvidia_smi" in answers else 0
    return health.assess(answers, replace(NODE, gpus=count or NODE.gpus))


def shown(found: Health) -> list[tuple[Symptom, str]]:
    return [(sign.symptom, sign.message) for sign in found.signs]


def test_healthy_node_has_no_signs() -> None:
    assert judged(well()) == Health(at=0.0)


def test_unknown_facts_are_no_signs() -> None:
    assert judged({}) == Health(at=0.0)


S = Symptom
CASES: dict[str, tuple[dict[str, ProbeResult], list[tuple[Symptom, str]]]] = {
    "gpu-lost": ({"nvidia_smi": smi("580-one-gpu-lost")}, [(S.GPU_LOST, "GPU is lost")]),
    "driver-gone": ({"nvidia_smi": smi("cannot-communicate")}, [(S.NODE, "couldn't communicate")]),
    "no-handle": ({"nvidia_smi": smi("handle-unknown-error")}, [(S.GPU_LOST, "Unable to determine the device handle")]),
    "unhealthy-fabric": (
        {"nvidia_smi": smi("580-completed-but-unhealthy")},
        [(S.FATAL_LINK, ": NVLink fabric: ")],
    ),
    "recovery-due": ({"nvidia_smi": smi("580-recovery-due")}, [(S.FIRMWARE, "the driver requests")]),
    "memory-worn-out": (
        {"nvidia_smi": smi("580-memory-worn-out")},
        [(S.MEMORY, "`remapped_row_failure: Yes`"), (S.MEMORY, "`sram_threshold_exceeded: Yes`")],
    ),
    "fatal-link": ({"journal": log(NETIR)}, [(S.FATAL_LINK, "GPU 0008:01:00: Xid 149, NVLink NETIR error")]),
    "sympathetic-link": ({"journal": log(RLW, RLW)}, [(S.SYMPATHETIC, "(2 times)")]),
    "off-the-bus": ({"journal": log("79, GPU has fallen off the bus.")}, [(S.GPU_LOST, "Xid 79")]),
    "uncontained-memory": ({"journal": log("95, pid=1, name=x, Uncontained")}, [(S.MEMORY, "Xid 95")]),
    "contained-memory": ({"journal": log("94, pid=1, name=x, Contained")}, [(S.APPLICATION, "Xid 94")]),
    "rows-remapped": ({"journal": log("63, Row remapper")}, []),
    "gsp": ({"journal": log("119, pid=1, name=x, Timeout waiting for RPC")}, [(S.FIRMWARE, "Xid 119")]),
    "page-fault": ({"journal": log("31, pid=1, name=x, Ch 1")}, [(S.APPLICATION, "Xid 31")]),
    "cleanup": ({"journal": log("45, pid=1, name=x, Ch 1")}, [(S.SYMPATHETIC, "Xid 45")]),
    "one-error-of-an-old-link": ({"journal": log("74, pid=1, NVLink: fatal error")}, []),
    "high-single-bit": ({"journal": log("92, pid=1")}, []),
    "disk-full": ({"space ~": space("~", free=9 * 1024**2)}, [(S.NODE, "`~` is full: 9 MB free")]),
    "disk-nearly-full": ({"space ~": space("~", free=GIB)}, []),
    "read-only": ({"space /tmp": space("/tmp", read_only=True, free=1)}, [(S.NODE, "`/tmp` is read-only")]),
    "inodes": ({"space /tmp": space("/tmp", free_inodes=3)}, [(S.NODE, "3 free inodes")]),
    "shared-memory": ({"space /dev/shm": space("/dev/shm", free=0)}, [(S.APPLICATION, "`/dev/shm` is full")]),
    "memory": (
        {"memory": said({"total": 100 * GIB, "available": GIB // 2, "stalled": 0.0})},
        [(S.APPLICATION, "of memory available")],
    ),
    "memory-pressure": (
        {"memory": said({"total": 100 * GIB, "available": 50 * GIB, "stalled": 80.0})},
        [(S.APPLICATION, "waited for memory 80%")],
    ),
}


@pytest.mark.parametrize(("changed", "expected"), CASES.values(), ids=CASES)
def test_fault_has_this_symptom(changed: dict[str, ProbeResult], expected: list[tuple[Symptom, str]]) -> None:
    found = shown(judged(well(**changed)))
    assert [symptom for symptom, _ in found] == [symptom for symptom, _ in expected], found
    for (_, words), (_, wanted) in zip(found, expected, strict=True):
        assert wanted in words


def test_missing_gpu_is_a_lost_gpu() -> None:
    found = health.assess(well(), replace(NODE, gpus=5))
    assert shown(found) == [(Symptom.GPU_LOST, "4 of 5 GPUs found")]


def test_failed_link_is_worse_on_its_own_node_than_on_peers() -> None:
    culprit, other = judged(well(journal=log(RLW, NETIR))), judged(well(journal=log(RLW)))
    assert (culprit.worst, other.worst) == (Symptom.FATAL_LINK, Symptom.SYMPATHETIC)


def test_recovery_action_is_first_and_has_the_symptom_of_the_error_of_its_gpu() -> None:
    (due,) = judged(well(nvidia_smi=smi("580-recovery-due"))).signs
    bus = due.message.removeprefix("GPU ").partition(": ")[0]
    text = f"[  100.0] NVRM: Xid (PCI:{bus}): 48, pid=1, name=x, DBE\n"
    found = judged(well(nvidia_smi=smi("580-recovery-due"), journal=ProbeResult(rc=0, out=text, lines=9)))
    assert [sign.symptom for sign in found.signs] == [Symptom.MEMORY, Symptom.MEMORY]
    assert "the driver requests" in found.signs[0].message


@pytest.mark.parametrize(
    ("began", "at", "counts"),
    [
        (said(json.dumps({"boot_id": "b1", "at": BEGAN})), BEGAN - 1, False),
        (said(json.dumps({"boot_id": "b1", "at": BEGAN})), BEGAN + 1, True),
        (said(json.dumps({"boot_id": "of-an-earlier-boot", "at": BEGAN})), BEGAN - 1, True),
    ],
    ids=["before-the-run", "since-the-run-began", "machine-booted-since"],
)
def test_errors_count_since_the_run_began_on_the_node(began: ProbeResult, at: float, counts: bool) -> None:
    found = judged(well(began=began, journal=log(NETIR, at=at)))
    assert bool(found.signs) is counts


def test_past_errors_do_not_count_without_an_agent_if_the_driver_requests_nothing() -> None:
    nothing_here = said(None)
    bus = next(line for line in smi().out.splitlines() if "<gpu id=" in line).split('"')[1]
    past = ProbeResult(rc=0, out=f"[  100.0] NVRM: Xid (PCI:{bus}): {NETIR}\n", lines=9)
    assert judged(well(began=nothing_here, journal=past)).signs == ()
    assert (
        judged(well(began=nothing_here, journal=past, nvidia_smi=ProbeResult(rc=None, out=""))).worst
        is Symptom.FATAL_LINK
    )


def test_probe_that_hangs_is_named_without_a_sign() -> None:
    hangs = ProbeResult(rc=-9, out="", timed_out=True, elapsed=20.0)
    found = judged(well(nvidia_smi=hangs, **{"space ~": hangs}))
    assert found == Health(at=0.0, hung=("nvidia-smi", "`~`"))


def test_unreadable_log_is_no_sign() -> None:
    assert judged(well(journal=ProbeResult(rc=0, out="", lines=0))).signs == ()


def test_node_without_gpu_driver_has_signs_of_disks_only() -> None:
    node = replace(NODE, gpu_driver=GpuDriver.NONE)
    answers = well(journal=log(NETIR), **{"space ~": space("~", free=0)})
    assert [sign.symptom for sign in health.assess(answers, node).signs] == [Symptom.NODE]
