"""Rates of faults against published figures, and drawn timelines against their rates."""

import math
from collections import Counter
from dataclasses import replace
from random import Random

import pytest

from launcher.core.model.inventory import Access, Inventory, Node, RackName, Transport
from launcher.core.model.nodeset import NodeName
from launcher.core.planner.faults import (
    DAY_S,
    PUBLISHED,
    REPAIRS,
    UNEQUAL_SIGMA,
    FaultModel,
    Lognormal,
    Outage,
    OutageScope,
    days_to_fault,
    draw_outages,
    draw_weights,
    exponential,
    faults_per_week,
    interruptions_per_day,
    normal,
    rate_of,
    share_down,
    survival,
    whole_domain,
)
from tests.unit.core.planner.rounding import printed

MODEL = FaultModel()


@pytest.mark.parametrize(("name", "per_tray"), [("rsc-2", "1.2"), ("llama-3", "1.9"), ("rsc-1", "3.3")])
def test_published_rates_per_tray_of_4_gpus(name: str, per_tray: str) -> None:
    """In 1e-3 a day: RSC-1 and RSC-2 of arXiv 2410.21680, Llama 3 of arXiv 2407.21783."""
    assert printed(PUBLISHED[name].per_day(4) * 1000, 1) == per_tray
    assert PUBLISHED[name].source


def test_a_rate_is_named_or_a_time_between_faults_of_a_node() -> None:
    assert rate_of("rsc-1", 4) is PUBLISHED["rsc-1"]
    for gpus in (4, 8):
        found = rate_of("500d", gpus)
        assert found.per_day(gpus) == pytest.approx(1 / 500)
        assert found.source == f"a fault every 500 days of a node of {gpus} GPUs"
    assert rate_of("36h", 1).source == "a fault every 1.5 days of a node of 1 GPU"


@pytest.mark.parametrize("text", ["", "llama", "-5d", "5 years", "1e9d", "nan", "0", "10m", "\u0665d"])
def test_a_rate_of_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"neither a published rate|less than an hour"):
        rate_of(text, 4)


@pytest.mark.parametrize(("gpus", "hours", "digits"), [(16_384, "1.8", 1), (131_072, "0.23", 2)])
def test_time_to_failure_of_large_jobs(gpus: int, hours: str, digits: int) -> None:
    """Time to failure on RSC-1, arXiv 2410.21680."""
    model = FaultModel(rate=PUBLISHED["rsc-1"])
    assert f"{days_to_fault(model, gpus) * 24:.{digits}f}" == hours


@pytest.mark.parametrize(
    ("failed_share", "expected"),
    [
        (0.001, (".992", ".984", ".969", ".938", ".931")),
        (0.004, (".968", ".938", ".880", ".774", ".749")),
        (0.01, (".923", ".852", ".725", ".526", ".485")),
    ],
)
def test_probability_that_a_domain_is_whole(failed_share: float, expected: tuple[str, ...]) -> None:
    """Domains of 8, 16, 32, 64 and 72 GPUs, arXiv 2504.06095."""
    found = [printed(whole_domain(gpus, failed_share), 3) for gpus in (8, 16, 32, 64, 72)]
    assert found == [f"0{figure}" for figure in expected]


def test_faults_of_neighbours_count_where_they_hit_the_domain() -> None:
    alone = interruptions_per_day(MODEL, 64)
    assert alone == pytest.approx(MODEL.rate.per_day(64))
    assert interruptions_per_day(MODEL, 64, 72) == pytest.approx(alone + 0.075 * MODEL.rate.per_day(8))
    assert interruptions_per_day(replace(MODEL, domain_share=0.0), 64, 72) == pytest.approx(alone)


def test_survival_and_faults_of_a_slice() -> None:
    """16 trays at 1.9e-3 a day: 0.21 faults a week, and a week without one in 81 % of the cases."""
    assert f"{faults_per_week(MODEL, 64):.2f}" == "0.21"
    assert survival(MODEL, 64, 7) == pytest.approx(math.exp(-faults_per_week(MODEL, 64)))
    assert f"{survival(MODEL, 64, 7):.2f}" == "0.81"
    assert survival(MODEL, 64, 0) == 1


def test_share_of_nodes_in_repair() -> None:
    """Two days a repair on average: 0.4 % of the trays are down."""
    assert f"{MODEL.repair_s / DAY_S:.2f}" == "1.95"
    assert f"{share_down(MODEL):.4f}" == "0.0037"


def hall(racks: int) -> Inventory:
    nodes = tuple(
        Node(
            name=NodeName(f"r{rack:02}-n{tray:02}"),
            rack=RackName(f"r{rack:02}"),
            domain=f"r{rack:02}",
            access=Access(address="10.0.0.1"),
        )
        for rack in range(racks)
        for tray in range(18)
    )
    return Inventory(name="hall", transport=Transport.SIM, nodes=nodes)


def drawn(racks: int, days: float, model: FaultModel = MODEL, seed: int = 1) -> tuple[Outage, ...]:
    return draw_outages(hall(racks), model, days, Random(seed).random)


def test_equal_numbers_give_equal_timelines_in_order() -> None:
    found = drawn(9, 60)
    assert found == drawn(9, 60)
    assert found != drawn(9, 60, seed=2)
    assert [one.at_s for one in found] == sorted(one.at_s for one in found)
    assert all(0 <= one.at_s < 60 * DAY_S for one in found)


def test_the_order_of_the_inventory_changes_nothing() -> None:
    inventory = hall(3)
    turned = replace(inventory, nodes=inventory.nodes[::-1])
    assert draw_outages(inventory, MODEL, 90, Random(1).random) == draw_outages(turned, MODEL, 90, Random(1).random)


def test_timelines_have_the_rates_of_the_model() -> None:
    model = replace(MODEL, unequal_sigma=0.0)
    racks, days = 60, 400
    counts = Counter(one.scope for one in drawn(racks, days, model))
    of_nodes = counts[OutageScope.NODE] + counts[OutageScope.DOMAIN]
    expected = faults_per_week(model, racks * 72) / 7 * days * (1 - share_down(model))
    assert of_nodes == pytest.approx(expected, rel=0.1)
    assert counts[OutageScope.DOMAIN] / of_nodes == pytest.approx(0.075, abs=0.03)
    assert counts[OutageScope.RACK] == pytest.approx(racks * days / 730, rel=0.5)
    assert counts[OutageScope.MAINTENANCE] == pytest.approx(racks * days / 90, rel=0.1)


def test_detection_and_repair_have_their_ranges() -> None:
    found = drawn(60, 200)
    nodes = [one for one in found if one.node is not None]
    assert all(30 <= one.detection_s <= 60 or 600 <= one.detection_s <= 900 for one in nodes)
    hangs = sum(one.detection_s >= 600 for one in nodes) / len(nodes)
    assert hangs == pytest.approx(0.1, abs=0.05)
    drains = [one for one in found if one.scope is OutageScope.MAINTENANCE]
    assert all(3600 <= one.repair_s <= 4 * 3600 and one.detection_s == 0 for one in drains)
    assert all((one.node is None) == (one.scope in (OutageScope.RACK, OutageScope.MAINTENANCE)) for one in found)


def test_a_node_in_repair_does_not_fail() -> None:
    busy = replace(MODEL, rate=replace(MODEL.rate, per_gpu_day=0.5), unequal_sigma=0.0)
    back: dict[NodeName, float] = {}
    for one in drawn(2, 60, busy):
        if one.node is not None:
            assert one.at_s >= back.get(one.node, 0.0)
            back[one.node] = one.back_s


def test_a_fleet_without_faults_has_only_its_maintenance() -> None:
    quiet = replace(MODEL, rate=replace(MODEL.rate, per_gpu_day=0.0), rack_out_days=None)
    assert {one.scope for one in drawn(9, 90, quiet)} == {OutageScope.MAINTENANCE}
    assert drawn(9, 90, replace(quiet, maintenance_days=None)) == ()


def test_a_twentieth_of_the_trays_causes_half_of_the_faults() -> None:
    weights = sorted(draw_weights(20_000, UNEQUAL_SIGMA, Random(5).random), reverse=True)
    assert sum(weights) == pytest.approx(20_000)
    assert sum(weights[:1_000]) / 20_000 == pytest.approx(0.5, abs=0.03)


def test_repairs_have_the_medians_that_they_say() -> None:
    random = Random(3)
    assert sum(repair.share for repair in REPAIRS) == pytest.approx(1)
    for repair, median in zip(REPAIRS, (20 * 60, 8 * 3600, 3 * DAY_S), strict=True):
        times = sorted(repair.time.draw(random.random) for _ in range(2_001))
        assert times[1_000] == pytest.approx(median, rel=0.1)
        assert sum(times) / len(times) == pytest.approx(repair.time.mean_s, rel=0.15)


def test_drawn_numbers_have_their_distributions() -> None:
    random = Random(4)
    waits = [exponential(10, random.random) for _ in range(5_000)]
    assert sum(waits) / 5_000 == pytest.approx(10, rel=0.05)
    normals = [normal(random.random) for _ in range(5_000)]
    assert sum(normals) / 5_000 == pytest.approx(0, abs=0.05)
    assert sum(one * one for one in normals) / 5_000 == pytest.approx(1, rel=0.06)


def test_a_source_at_its_limits_draws_finite_numbers() -> None:
    largest = math.nextafter(1.0, 0.0)
    for value in (0.0, largest):
        assert math.isfinite(exponential(1.0, lambda value=value: value))  # type: ignore[misc]
        assert math.isfinite(Lognormal(median_s=1.0, sigma=1.0).draw(lambda value=value: value))  # type: ignore[misc]
