"""A picture of the choices of slice size: one SVG file that needs nothing else, for light and dark pages."""

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from launcher.admission.slice_sizes import SizeReport
from launcher.cli.output.console import clean
from launcher.cli.output.sizes import job_text, marks
from launcher.core.model.text import count
from launcher.core.planner.sizing import SizeLine

_WIDTH, _HEIGHT = 760, 660
_LEFT, _RIGHT = 76, 732
_TICK_GAP = 34
"""The least distance of two labels on the x axis (px)."""

_NAME = 48
"""The longest name of an inventory that is shown whole."""

_STEPS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20)
"""Distances of lines of the y axis that read well (percent)."""

_DASHES = ("none", "7 3", "2 3", "9 3 2 3")
"""One pattern a number of spares, so that lines differ without colour."""

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")

_STYLE = """
svg { --back: #ffffff; --ink: #1f2328; --faint: #d1d9e0; --band: #f3f5f7;
  --s0: #0060a8; --s1: #b84300; --s2: #007a5a; --s3: #8a4a78; font: 13px system-ui, sans-serif }
@media (prefers-color-scheme: dark) {
  svg { --back: #0d1117; --ink: #e6edf3; --faint: #30363d; --band: #161b22;
    --s0: #6cb6ff; --s1: #ff9d57; --s2: #4fd1a5; --s3: #e3a6d0 } }
text { fill: var(--ink) } .title { font-size: 17px; font-weight: 600 } .small { font-size: 11.5px }
.strong { font-weight: 600; paint-order: stroke; stroke: var(--back); stroke-width: 4px }
.back { fill: var(--back) } .band { fill: var(--band) } .grid { stroke: var(--faint) } .axis { stroke: var(--ink) }
.ring { fill: none; stroke: var(--ink); stroke-width: 1.5 }
.s0 { stroke: var(--s0); fill: var(--s0) } .s1 { stroke: var(--s1); fill: var(--s1) }
.s2 { stroke: var(--s2); fill: var(--s2) } .s3 { stroke: var(--s3); fill: var(--s3) }
.line { fill: none; stroke-width: 2 } .hollow { fill: var(--back) }
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Panel:
    """One diagram: its place (px), what it shows (a share), and the lowest and next line of its y axis (percent)."""

    top: int
    bottom: int
    title: str
    value: Callable[[SizeLine], float]
    low: float
    step: float

    def y(self, share: float) -> float:
        """Return the height of a share (px)."""
        return self.bottom - (100 * share - self.low) / (100 - self.low) * (self.bottom - self.top)


def sizes_svg(report: SizeReport) -> str:
    """Return the picture: progress of the fleet and goodput of the job against slice size, a line each spares."""
    return "\n".join(_svg(report)) + "\n"


def _svg(report: SizeReport) -> Iterator[str]:
    lines = report.advice.lines
    gpus = report.advice.fleet.gpus_per_node
    title = f"Slice sizes for {count(report.advice.job.nodes * gpus, 'GPU')}"
    yield f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">'
    yield f"<title>{_text(title)}</title>"
    yield f"<desc>{_text(report.advice.reason)}</desc>"
    yield f"<style>{_STYLE}</style>"
    yield f'<rect class="back" width="{_WIDTH}" height="{_HEIGHT}"/>'
    yield _label(24, 30, title, kind="title")
    yield _label(24, 52, job_text(report))
    yield _label(24, 70, _source(report), kind="small")
    yield from _legend(lines)
    progress = _panel(lines, 144, 376, "Progress: share of the fleet's GPU time, %", lambda line: line.progress)
    goodput = _panel(lines, 436, 576, "Goodput: share of the job's time, %", lambda line: line.goodput_in_place)
    yield from _drawn(progress, report, marked=True)
    yield from _drawn(goodput, report, marked=False)
    yield _label((_LEFT + _RIGHT) / 2, 618, f"nodes of a slice, of {count(gpus, 'GPU')} each", anchor="middle")
    yield _label(24, 646, _caption(report, (progress, goodput)), kind="small")
    yield "</svg>"


def _source(report: SizeReport) -> str:
    name = report.inventory or ""
    where = f"inventory {name if len(name) <= _NAME else name[: _NAME - 1] + '…'} · " if name else ""
    days = f"{report.node_days:.0f}" if report.node_days >= 10 else f"{report.node_days:.2g}"
    return f"{where}1 fault of a node in {days} days · {report.down:.2%} of nodes in repair"


def _caption(report: SizeReport, panels: Sequence[_Panel]) -> str:
    hollow = "" if all(line.fits for line in report.advice.lines) else "Hollow: no room for the whole job. "
    cut = " The y axes do not all begin at 0." if any(panel.low for panel in panels) else ""
    return f"{hollow}Lines join sizes that divide the job.{cut}"


def _panel(lines: Sequence[SizeLine], top: int, bottom: int, title: str, value: Callable[[SizeLine], float]) -> _Panel:
    """Return a diagram whose y axis ends at 100 % and has at most six lines."""
    least = 100 * min(map(value, lines))
    step = next((one for one in _STEPS if (100 - least) / one <= 5), _STEPS[-1])
    low = max(0.0, min(math.floor(least / step) * step, 100 - step))
    return _Panel(top=top, bottom=bottom, title=title, value=value, low=low, step=step)


def _drawn(panel: _Panel, report: SizeReport, *, marked: bool) -> Iterator[str]:
    advice = report.advice
    sizes = sorted({line.slice_nodes for line in advice.lines})
    yield f'<g role="group" aria-label="{_text(panel.title)}">'
    if marked:
        yield from _band(panel, sizes, advice.least_nodes, advice.least_nodes * advice.fleet.gpus_per_node)
    yield _label(_LEFT, panel.top - 12, panel.title, kind="strong")
    for number in range(round((100 - panel.low) / panel.step) + 1):
        percent = panel.low + number * panel.step
        y = panel.y(percent / 100)
        yield _stroke("axis" if number == 0 else "grid", _LEFT, y, _RIGHT, y)
        yield _label(_LEFT - 8, y + 4, f"{percent:.{_digits(panel.step)}f}", anchor="end")
    yield from _ticks(panel, sizes)
    for at, spares in enumerate(sorted({line.spares for line in advice.lines})):
        yield from _series(panel, [line for line in advice.lines if line.spares == spares], sizes, at)
    if marked:
        yield from _rings(panel, report, sizes)
    yield "</g>"


def _x(nodes: float, sizes: Sequence[int]) -> float:
    low, high = sizes[0] - 0.5, sizes[-1] + 0.5
    return _LEFT + (nodes - low) / (high - low) * (_RIGHT - _LEFT)


def _ticks(panel: _Panel, sizes: Sequence[int]) -> Iterator[str]:
    last = -math.inf
    for nodes in sizes:
        x = _x(nodes, sizes)
        yield _stroke("axis", x, panel.bottom, x, panel.bottom + 5)
        if x - last >= _TICK_GAP:
            yield _label(x, panel.bottom + 20, str(nodes), anchor="middle")
            last = x


def _band(panel: _Panel, sizes: Sequence[int], least: int, gpus: int) -> Iterator[str]:
    """Return the shade over slices that are smaller than asked for."""
    edge = _x(max((size for size in sizes if size < least), default=0) + 0.5, sizes)
    if edge > _LEFT:
        height = panel.bottom - panel.top
        yield f'<rect class="band" x="{_LEFT}" y="{panel.top}" width="{edge - _LEFT:.1f}" height="{height}"/>'
        yield _label(_LEFT + 6, panel.bottom - 8, f"below {count(gpus, 'GPU')}", kind="small")


def _series(panel: _Panel, lines: Sequence[SizeLine], sizes: Sequence[int], at: int) -> Iterator[str]:
    points = [(line, _x(line.slice_nodes, sizes), panel.y(panel.value(line))) for line in lines]
    path = " ".join(f"{x:.1f},{y:.1f}" for _, x, y in points)
    yield f'<polyline class="s{at % 4} line" stroke-dasharray="{_DASHES[at % 4]}" points="{path}"/>'
    for line, x, y in points:
        room = "" if line.fits else ", no room for the whole job"
        yield _marker(at, x, y, f"{line.name}: {panel.value(line):.2%}{room}", hollow=not line.fits)


def _rings(panel: _Panel, report: SizeReport, sizes: Sequence[int]) -> Iterator[str]:
    """Return a ring around the best choice and the task's own: the name of the upper one above, the other's below."""
    found = [(line, [mark for mark in marks(line, report.advice) if mark != "no room"]) for line in report.advice.lines]
    ringed = sorted(((panel.value(line), line, names) for line, names in found if names), key=lambda one: -one[0])
    for number, (value, line, names) in enumerate(ringed):
        x, y = _x(line.slice_nodes, sizes), panel.y(value)
        yield f'<circle class="ring" cx="{x:.1f}" cy="{y:.1f}" r="9"/>'
        below = number > 0 or y < panel.top + 24
        anchor, at = ("middle", x) if x < _RIGHT - 50 else ("end", _RIGHT)
        yield _label(at, y + (24 if below else -14), ", ".join(names), kind="strong", anchor=anchor)


def _legend(lines: Sequence[SizeLine]) -> Iterator[str]:
    x = 24.0
    for at, spares in enumerate(sorted({line.spares for line in lines})):
        name = f"{count(spares, 'spare')} a slice" if spares else "no spares"
        yield f'<polyline class="s{at % 4} line" stroke-dasharray="{_DASHES[at % 4]}" points="{x},96 {x + 36},96"/>'
        yield _marker(at, x + 18, 96, name, hollow=False)
        yield _label(x + 44, 100, name)
        x += 44 + 7 * len(name) + 24


def _marker(at: int, x: float, y: float, title: str, *, hollow: bool) -> str:
    """Return the sign of a series: circle, square, triangle or diamond."""
    kind = f"s{at % 4}{' hollow' if hollow else ''}"
    said = f"<title>{_text(title)}</title>"
    if at % 4 == 0:
        return f'<circle class="{kind}" stroke-width="1.5" cx="{x:.1f}" cy="{y:.1f}" r="4.5">{said}</circle>'
    corners = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5.5), (5, 4), (-5, 4)),
        3: ((0, -6), (6, 0), (0, 6), (-6, 0)),
    }[at % 4]
    points = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners)
    return f'<polygon class="{kind}" stroke-width="1.5" points="{points}">{said}</polygon>'


def _digits(step: float) -> int:
    return max(0, -math.floor(math.log10(step)))


def _stroke(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _label(x: float, y: float, text: str, *, kind: str = "", anchor: str = "start") -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{_text(text)}</text>'


def _text(text: str) -> str:
    """Return a text for XML: escaped, without characters that XML does not allow."""
    return escape(_NOT_XML.sub("?", clean(text)))
