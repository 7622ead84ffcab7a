"""The picture of slice sizes: XML that stands alone, with all choices in it."""

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from launcher.admission.slice_sizes import SizeReport
from launcher.cli.output.size_plot import sizes_svg
from launcher.core.planner.faults import FaultModel, rate_of
from launcher.core.planner.size_advice import OwnSize, advise
from launcher.core.planner.sizing import FleetShape, JobShape

SVG = "{http://www.w3.org/2000/svg}"


def report(nodes: int = 128, racks: int = 9, mtbf: str = "500d", own: OwnSize | None = None) -> SizeReport:
    model = FaultModel(rate=rate_of(mtbf, 4))
    advice = advise(JobShape(nodes=nodes), FleetShape(racks=racks), model, own=own)
    return SizeReport(advice=advice, model=model, inventory="hall", accelerator=None, notes=(), observed=None)


def drawn(one: SizeReport) -> ET.Element:
    return ET.fromstring(sizes_svg(one))


def texts(root: ET.Element) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]


def test_each_number_of_spares_has_a_line_in_both_diagrams() -> None:
    root = drawn(report())
    for group in root.iter(f"{SVG}g"):
        lines = [one.get("points", "").split() for one in group.iter(f"{SVG}polyline")]
        assert [len(points) for points in lines] == [5, 5, 5], group.get("aria-label")
    assert {"no spares", "1 spare a slice", "2 spares a slice"} <= set(texts(root))


def test_points_stand_where_their_figures_are() -> None:
    """On the left axis: the heights of 100 % and of the lowest label are those of their lines."""
    one = report()
    panel = next(iter(drawn(one).iter(f"{SVG}g")))
    grid = [line for line in panel.iter(f"{SVG}line") if line.get("x1") != line.get("x2")]
    heights = [float(line.get("y1", "")) for line in grid]
    left = [text.text or "" for text in panel.iter(f"{SVG}text") if text.get("text-anchor") == "end"]
    labels = [float(text) for text in left if text[0].isdigit()]
    low, high = labels[0], labels[len(grid) - 1]
    assert high == 100
    path = next(iter(panel.iter(f"{SVG}polyline"))).get("points", "")
    progress = [line.progress for line in one.advice.lines if line.spares == 0]
    for point, share in zip(path.split(), progress, strict=True):
        y = float(point.split(",")[1])
        found = low + (heights[0] - y) / (heights[0] - heights[-1]) * (high - low)
        assert found == pytest.approx(100 * share, abs=0.1)


def test_axes_have_units_and_the_best_and_own_choices_have_names() -> None:
    found = texts(drawn(report(own=OwnSize(group="main", slice_nodes=16, spares=1))))
    assert "nodes of a slice, of 4 GPUs each" in found
    assert "Progress: share of the fleet's GPU time, %" in found
    assert {"best", "your task", "below 32 GPUs"} <= set(found)


def test_choices_without_room_are_hollow() -> None:
    root = drawn(report())
    hollow = [one for one in root.iter() if "hollow" in one.get("class", "")]
    assert len(hollow) == 2 * sum(not line.fits for line in report().advice.lines) > 0
    assert any("Hollow" in text for text in texts(root))


def test_names_of_inventories_are_escaped_and_cut() -> None:
    name = "<script>alert('1')</script>&\x1b\ufffe" + "x" * 100
    text = sizes_svg(replace(report(), inventory=name))
    root = ET.fromstring(text)
    assert not list(root.iter(f"{SVG}script"))
    shown = next(one for one in texts(root) if one.startswith("inventory"))
    assert len(shown) < 150


def test_the_picture_needs_nothing_else_and_suits_dark_pages() -> None:
    text = sizes_svg(report())
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text


@pytest.mark.parametrize(
    ("nodes", "racks", "mtbf"), [(1, 1, "500d"), (127, 9, "9d"), (720_720, 50_000, "500d"), (18, 1, "1h")]
)
def test_odd_jobs_have_a_picture_within_its_frame(nodes: int, racks: int, mtbf: str) -> None:
    root = drawn(report(nodes, racks, mtbf))
    _, _, width, height = map(float, root.get("viewBox", "").split())
    for line in root.iter(f"{SVG}polyline"):
        for point in line.get("points", "").split():
            x, y = map(float, point.split(","))
            assert 0 <= x <= width
            assert 0 <= y <= height
