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

    Infinity stays a number (pydantic's own writer would make it null). A lone surrogate becomes `?`: stored as it is,
    it could not be read back.
    """
    plain = _adapter(kind).dump_python(value, mode="json")  # type: ignore[arg-type]  # a class is hashable
    text = json.dumps(plain, ensure_ascii=False, separators=(",", ":"))
    return storable(text)


def storable(text: str) -> str:
    """Return a text that UTF-8 can encode.

    File names and arguments may hold bytes that it cannot.
    """
    return text.encode("utf-8", "replace").decode("utf-8")


def load(kind: type[T], text: str) -> T:
    """Return the value that `dump` wrote.

    Pydantic's ValidationError for anything else.
    """
    value: T = _adapter(kind).validate_json(text)  # type: ignore[arg-type]  # a class is hashable
    return value


@cache
def _adapter(kind: Any) -> "TypeAdapter[Any]":
    from pydantic import TypeAdapter

    return TypeAdapter(kind)
