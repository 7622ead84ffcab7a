"""What a node shows of its health, and whom each sign speaks against."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.core.model.inventory import GpuDriver
from launcher.core.model.observation import Health, Symptom
from launcher.probe import health
from launcher.probe.answer import Ran
from tests.facts import NODE

CORPUS = Path(__file__).parents[2] / "corpus" / "probe"
GIB = 1024**3
BEGAN = 50.0
NETIR = "149, NETIR_LINK_EVT Fatal XC0 i0 Link 08 (0x004505c6 0x00000000)"
RLW = "145, RLW_RXPIPE Nonfatal XC0 i0 Link 13 (0x0409a0c2 0x00000000)"


def said(value: object) -> Ran:
    return Ran(rc=0, out=json.dumps(value))


def smi(name: str = "580-healthy") -> Ran:
    case = json.loads((CORPUS / "nvidia_smi" / f"{name}.json").read_text())
    return Ran(out=(CORPUS / "nvidia_smi" / f"{name}.out").read_text(), **case["ran"])


def log(*lines: str, at: float = 100.0) -> Ran:
    text = "".join(f"[  {at:.1f}] NVRM: Xid (PCI:0008:01:00): {line}\n" for line in lines)
    return Ran(rc=0, out=text, lines=9)


def space(path: str, **changed: object) -> Ran:
    base = {"path": path, "at": path, "bytes": 100 * GIB, "free": 50 * GIB, "inodes": 9999, "free_inodes": 999}
    return said({**base, "writable": True, "read_only": False, **changed})


def well(**changed: Ran) -> dict[str, Ran]:
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


def judged(answers: dict[str, Ran]) -> Health:
    # Some of the recorded trays have two GPUs.
    count = answers["nvidia_smi"].out.count("<gpu id=") if "nvidia_smi" in answers else 0
    return health.judge(answers, replace(NODE, gpus=count or NODE.gpus))


def shown(found: Health) -> list[tuple[Symptom, str]]:
    return [(sign.symptom, sign.message) for sign in found.signs]


def test_a_well_node_shows_nothing() -> None:
    assert judged(well()) == Health(at=0.0)


def test_nothing_seen_is_no_sign() -> None:
    assert judged({}) == Health(at=0.0)


S = Symptom
CASES: dict[str, tuple[dict[str, Ran], list[tuple[Symptom, str]]]] = {
    "gpu-lost": ({"nvidia_smi": smi("580-one-gpu-lost")}, [(S.GPU_LOST, "GPU is lost")]),
    "driver-gone": ({"nvidia_smi": smi("cannot-communicate")}, [(S.NODE, "couldn't communicate")]),
    "no-handle": ({"nvidia_smi": smi("handle-unknown-error")}, [(S.GPU_LOST, "Unable to determine the device handle")]),
    "unhealthy-fabric": (
        {"nvidia_smi": smi("580-completed-but-unhealthy")},
        [(S.FATAL_LINK, "NVLink fabric of GPU")],
    ),
    "recovery-due": ({"nvidia_smi": smi("580-recovery-due")}, [(S.FIRMWARE, "the driver asks for")]),
    "fatal-link": ({"journal": log(NETIR)}, [(S.FATAL_LINK, "Xid 149, NVLink NETIR error, on GPU 0008:01:00")]),
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
    "disk-full": ({"space ~": space("~", free=9 * 1024**2)}, [(S.NODE, "`~` is full: 9 MB are free")]),
    "disk-nearly-full": ({"space ~": space("~", free=GIB)}, []),
    "read-only": ({"space /tmp": space("/tmp", read_only=True, free=1)}, [(S.NODE, "`/tmp` is read-only")]),
    "inodes": ({"space /tmp": space("/tmp", free_inodes=3)}, [(S.NODE, "3 inodes left")]),
    "shared-memory": ({"space /dev/shm": space("/dev/shm", free=0)}, [(S.APPLICATION, "`/dev/shm` is full")]),
    "memory": (
        {"memory": said({"total": 100 * GIB, "available": GIB // 2, "stalled": 0.0})},
        [(S.APPLICATION, "of the memory is left")],
    ),
    "memory-pressure": (
        {"memory": said({"total": 100 * GIB, "available": 50 * GIB, "stalled": 80.0})},
        [(S.APPLICATION, "waited for it 80%")],
    ),
}


@pytest.mark.parametrize(("changed", "expected"), CASES.values(), ids=CASES)
def test_a_sign_says_whom_it_speaks_against(changed: dict[str, Ran], expected: list[tuple[Symptom, str]]) -> None:
    found = shown(judged(well(**changed)))
    assert [symptom for symptom, _ in found] == [symptom for symptom, _ in expected], found
    for (_, words), (_, wanted) in zip(found, expected, strict=True):
        assert wanted in words


def test_a_gpu_that_is_missing_without_a_word_is_lost() -> None:
    found = health.judge(well(), replace(NODE, gpus=5))
    assert shown(found) == [(Symptom.GPU_LOST, "4 of 5 GPUs are there")]


def test_the_worst_node_of_a_dead_link_is_the_one_that_lost_it() -> None:
    culprit, other = judged(well(journal=log(RLW, NETIR))), judged(well(journal=log(RLW)))
    assert (culprit.worst, other.worst) == (Symptom.FATAL_LINK, Symptom.SYMPATHETIC)


def test_a_recovery_action_comes_first_and_is_of_the_rank_of_its_gpus_error() -> None:
    (due,) = judged(well(nvidia_smi=smi("580-recovery-due"))).signs
    bus = due.message.rpartition(" ")[2]
    text = f"[  100.0] NVRM: Xid (PCI:{bus}): 48, pid=1, name=x, DBE\n"
    found = judged(well(nvidia_smi=smi("580-recovery-due"), journal=Ran(rc=0, out=text, lines=9)))
    assert [sign.symptom for sign in found.signs] == [Symptom.MEMORY, Symptom.MEMORY]
    assert found.signs[0].message.startswith("the driver asks for")


@pytest.mark.parametrize(
    ("began", "at", "counts"),
    [
        (said(json.dumps({"boot_id": "b1", "at": BEGAN})), BEGAN - 1, False),
        (said(json.dumps({"boot_id": "b1", "at": BEGAN})), BEGAN + 1, True),
        (said(json.dumps({"boot_id": "of-an-earlier-boot", "at": BEGAN})), BEGAN - 1, True),
    ],
    ids=["before-the-run", "since-the-run-began", "machine-booted-since"],
)
def test_errors_count_since_the_run_began_on_the_node(began: Ran, at: float, counts: bool) -> None:
    found = judged(well(began=began, journal=log(NETIR, at=at)))
    assert bool(found.signs) is counts


def test_where_nothing_of_the_run_is_the_drivers_word_cures_a_gpus_past() -> None:
    nothing_here = said(None)
    bus = next(line for line in smi().out.splitlines() if "<gpu id=" in line).split('"')[1]
    past = Ran(rc=0, out=f"[  100.0] NVRM: Xid (PCI:{bus}): {NETIR}\n", lines=9)
    assert judged(well(began=nothing_here, journal=past)).signs == ()
    assert judged(well(began=nothing_here, journal=past, nvidia_smi=Ran(rc=None, out=""))).worst is Symptom.FATAL_LINK


def test_a_probe_that_hangs_is_named_and_blames_nobody() -> None:
    hangs = Ran(rc=-9, out="", timed_out=True, elapsed=20.0)
    found = judged(well(nvidia_smi=hangs, **{"space ~": hangs}))
    assert found == Health(at=0.0, hung=("nvidia-smi", "`~`"))


def test_a_log_that_may_not_be_read_is_no_sign() -> None:
    assert judged(well(journal=Ran(rc=0, out="", lines=0))).signs == ()


def test_a_cpu_rack_is_asked_for_its_disks_alone() -> None:
    node = replace(NODE, gpu_driver=GpuDriver.NONE)
    answers = well(journal=log(NETIR), **{"space ~": space("~", free=0)})
    assert [sign.symptom for sign in health.judge(answers, node).signs] == [Symptom.NODE]
