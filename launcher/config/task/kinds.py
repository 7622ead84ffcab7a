"""What each node must have: a kind of accelerator, or several to choose from."""

from launcher.config.schema.values import NO_GPUS, Accelerator
from launcher.config.yaml.reading import Reading, Values

_LISTS = ("any_of", "ordered")
_NAMES = ("accelerators", "gpus")


def read_kinds(owner: Values, out: Reading) -> tuple[Accelerator, ...] | None:
    """Return the kinds of which each node must have one, the first of them first; None where the file is wrong there.

    To SkyPilot a list is ordered and a set, like `any_of`, goes by price; machines that are there have none.
    """
    resources = owner.section("resources")
    if owner.has("resources") and owner.get("resources", Values) is None:
        return None
    if resources.written(*_LISTS):
        what = "`any_of` and `ordered` are two names of one list here"
        out.mistake(resources.key_of(_LISTS[1]), what, "keep one of them")
    outer = _named(resources, out)
    if outer is None:
        return None
    for name in _LISTS:
        if resources.has(name):
            return _alternatives(resources.get(name, tuple), outer, out)
    return outer or (NO_GPUS,)


def _alternatives(
    items: tuple[object, ...] | None, outer: tuple[Accelerator, ...], out: Reading
) -> tuple[Accelerator, ...] | None:
    """Return the kinds of each alternative in turn; one that names none has those beside the list."""
    read = [_named(item, out) for item in items or () if isinstance(item, Values)]
    kinds = [kind for found in read if found is not None for kind in found or outer or (NO_GPUS,)]
    return tuple(dict.fromkeys(kinds)) or None


def _named(resources: Values, out: Reading) -> tuple[Accelerator, ...] | None:
    """Return the kinds that one section names; None where they are wrong, which is said already."""
    if resources.written(*_NAMES):
        out.mistake(resources.key_of("gpus"), "`gpus` and `accelerators` are two names of one key", "keep one of them")
    for name in _NAMES:
        if resources.has(name):
            found = resources.get(name, tuple)
            return None if found is None else tuple(kind for kind in found if isinstance(kind, Accelerator))
    return ()
