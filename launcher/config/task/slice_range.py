"""A range of slices, `{min: 6, max: 8}`, and what it cannot be combined with."""

from collections.abc import Iterator, Mapping

from launcher.config.schema.fields import Field, ScalarOrSection, section
from launcher.config.schema.scalars import Integer
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.nodes import Mark
from launcher.config.yaml.values import Values
from launcher.core.model.task import OnNoSpare, RestartWith

MAX_NODES = 100_000
"""The most nodes of a group, and of its slices: ten times the largest fleet."""

_ONE = Integer(low=1, high=MAX_NODES)
_RANGE = section(
    Field(name="min", doc="The fewest slices that the run goes on with.", type=_ONE, required=True),
    Field(name="max", doc="The most slices that the run has.", type=_ONE, required=True),
)
_SHRINK = OnNoSpare.SHRINK.value


SLICES = ScalarOrSection(_ONE, _RANGE, f"{_ONE.expected}, or a range such as `{{min: 6, max: 8}}`")
"""The type of `slices`: a number, or a range."""


def read_range(topology: Values, out: Diagnostics) -> tuple[int, int] | None:
    """Return the least and the greatest number of slices; None without a range, or for a wrong one."""
    written = topology.get("slices", Values)
    low, high = (written.get("min", int), written.get("max", int)) if written else (None, None)
    if written is None or low is None or high is None:
        return None
    if low > high:
        out.mistake(written.mark_of("min"), f"`min: {low}` of `slices` is above `max: {high}`", "exchange the two")
    elif low == high:
        out.mistake(written.mark_of("min"), f"`min` and `max` of `slices` are both {low}", f"write `slices: {low}`")
    return low, max(low, high)


def check_ranges(groups: Mapping[str, Values], task: Values, out: Diagnostics) -> None:
    """Report groups that cannot have a range of slices, and keys that need one."""
    for name, own in groups.items():
        topology = own.section("topology")
        asked = own.section("recovery").over(task.section("recovery"))
        shrinks = asked.get("on_no_spare", str) == _SHRINK
        if topology.get("slices", Values) is not None:
            for mark, what, hint in _conflicts(name, own, asked, groups):
                out.mistake(mark, what, hint)
        elif shrinks and not topology.has("nodes_of"):
            what = f"`on_no_spare: {_SHRINK}` requires a range of slices, but group `{name}` has a fixed number"
            hint = "write, for example, `slices: {min: 6, max: 8}`, or use `wait`"
            out.mistake(asked.mark_of("on_no_spare"), what, hint)
        if asked.has("grow_after") and not shrinks:
            what = f"`grow_after` requires `on_no_spare: {_SHRINK}`"
            out.mistake(asked.key_of("grow_after"), what, "remove it: other groups do not change their size")


def _conflicts(
    name: str, own: Values, asked: Values, groups: Mapping[str, Values]
) -> Iterator[tuple[Mark, str, str | None]]:
    """Yield position, message and hint of what a range cannot be combined with."""
    topology = own.section("topology")
    mark = topology.key_of("slices")
    one = "write one number for `slices`"
    if asked.get("on_no_spare", str) != _SHRINK:
        hint = f"add `on_no_spare: {_SHRINK}` under `recovery`, or {one}"
        yield mark, f"a range of `slices` requires `on_no_spare: {_SHRINK}`", hint
    if asked.get("restart_with", str) == RestartWith.MEMBER.value:
        what = "`restart_with: member` cannot be combined with a range of `slices`: a rank that goes on would not see "
        yield asked.mark_of("restart_with"), what + "the new number of ranks", "use `run` or `group`"
    if own.written("num_nodes"):
        what = "`num_nodes` cannot be combined with a range of `slices`: the total changes"
        yield own.key_of("num_nodes"), what, "remove `num_nodes`"
    if topology.has("nodes_of"):
        what = "`nodes_of` cannot be combined with a range of `slices`: the group has no nodes of its own to give up"
        yield mark, what, one
    for other, values in groups.items():
        theirs = values.section("topology")
        if other != name and theirs.get("nodes_of", str) == name:
            what = f"group `{other}` uses the nodes of `{name}`, which therefore cannot have a range of `slices`"
            yield mark, what, f"{one}, or give `{other}` its own nodes"
        if other != name and theirs.get("near", str) == name:
            what = f"group `{other}` is placed near `{name}`, whose slices therefore cannot be dropped"
            yield mark, what, f"{one}, or remove `near: {name}` from `{other}`"
