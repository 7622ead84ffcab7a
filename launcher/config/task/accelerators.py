"""The accelerators that each node must have: one kind, or several alternatives."""

from launcher.config.task.value_types import NO_GPUS, Accelerator
from launcher.config.yaml.diagnostics import Diagnostics
from launcher.config.yaml.values import Values

_LISTS = ("any_of", "ordered")
_NAMES = ("accelerators", "gpus")


def read_accelerators(owner: Values, out: Diagnostics) -> tuple[Accelerator, ...] | None:
    """Return the alternatives in the order of the file.

    None if the file is wrong there. SkyPilot tries a list in order, and a set or `any_of` by price. There are no prices
    here: all are tried in order.
    """
    resources = owner.section("resources")
    if owner.has("resources") and owner.get("resources", Values) is None:
        return None
    if resources.written(*_LISTS):
        what = "`any_of` and `ordered` are both given, but mean the same"
        out.mistake(resources.key_of(_LISTS[1]), what, "remove one of the two")
    outer = _named(resources, out)
    if outer is None:
        return None
    for name in _LISTS:
        if resources.has(name):
            return _alternatives(resources.get(name, tuple), outer, out)
    return outer or (NO_GPUS,)


def _alternatives(
    items: tuple[object, ...] | None, outer: tuple[Accelerator, ...], out: Diagnostics
) -> tuple[Accelerator, ...] | None:
    """Return the kinds of each alternative.

    One that names none has those beside the list.
    """
    read = [_named(item, out) for item in items or () if isinstance(item, Values)]
    kinds = [kind for found in read if found is not None for kind in found or outer or (NO_GPUS,)]
    return tuple(dict.fromkeys(kinds)) or None


def _named(resources: Values, out: Diagnostics) -> tuple[Accelerator, ...] | None:
    """Return the kinds that one section names.

    None if they are wrong, which has been reported already.
    """
    if resources.written(*_NAMES):
        what = "`gpus` and `accelerators` are both given, but mean the same"
        out.mistake(resources.key_of("gpus"), what, "remove one of the two")
    for name in _NAMES:
        if resources.has(name):
            found = resources.get(name, tuple)
            return None if found is None else tuple(kind for kind in found if isinstance(kind, Accelerator))
    return ()
