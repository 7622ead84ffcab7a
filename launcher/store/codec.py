"""Values of the core to JSON and back.

Pydantic is imported at the first use, so that `status` starts fast.
"""

import json
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")


def dump(kind: type[T], value: T) -> str:
    """Return a value of a core dataclass as JSON.

    Infinity stays a number (by default pydantic's own writer would make it null). A lone surrogate becomes `?`: stored
    as it is, it could not be read back.
    """
    adapter = _adapter(kind)  # type: ignore[arg-type]  # a class is hashable
    try:
        return adapter.dump_json((value,)).decode()[1:-1]
    except ValueError:  # a lone surrogate; seldom, and this takes eight times as long
        (plain,) = adapter.dump_python((value,), mode="json")
        return storable(json.dumps(plain, ensure_ascii=False, separators=(",", ":")))


def storable(text: str) -> str:
    """Return a text that UTF-8 can encode.

    File names and arguments may hold bytes that it cannot.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def load(kind: type[T], text: str) -> T:
    """Return the value that `dump` wrote.

    Pydantic's ValidationError for anything else.
    """
    (value,) = _adapter(kind).validate_json(f"[{text}]")  # type: ignore[arg-type]  # a class is hashable
    found: T = value
    return found


@cache
def _adapter(kind: Any) -> "TypeAdapter[tuple[Any]]":
    """Return what writes and reads one value of a type: in a tuple, since a dataclass alone takes no `config`."""
    from pydantic import ConfigDict, TypeAdapter

    return TypeAdapter(tuple[kind], config=ConfigDict(ser_json_inf_nan="constants"))
