"""What nodes send, checked: untrusted bytes as the types of `runtime/protocol.py`, or the reason why they are none.

A node may be broken, of a later version, or not ours any more. So every reply is read here before anything else looks
at it: sizes, types, choices and ranges are those of the protocol, fields that it does not know are dropped, texts are
cut and printable as UTF-8. `OddReplyError` is the only error.
"""

import json
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, is_typeddict

from typing_extensions import NotRequired

from launcher.runtime import (
    protocol,
    protocol_buckets,
    protocol_files,
    protocol_programs,
    protocol_ray,
    protocol_views,
)

LARGEST = 64 << 20
"""Bytes of one reply: a head with 10,000 nodes sends some 3 MiB."""

LINE = 2 << 20
"""Bytes of one line from the relay of a machine without a head: a status with the ends of logs has some 100 KiB."""

MAX_TEXT = 4000
"""Characters of a text: more are cut off."""

MAX_LINES = 40
"""Lines of the end of a log: the last ones count."""

_MAX_INT = 1 << 53
_MAX_FLOAT = 1e15

T = TypeVar("T")
_Reader = Callable[[object], Any]
"""Returns a checked value; as a look reads thousands of them each second, the usual case comes first in each."""


class OddReplyError(ValueError):
    """What a node sent is not what the protocol says; the message says where."""


def parse(text: bytes, what: str = "the reply") -> object:
    """Return the value of a JSON text; OddReplyError where it is none, or too large, or has a field twice."""
    if len(text) > LARGEST:
        raise OddReplyError(f"{what} is longer than {LARGEST >> 20} MiB")
    try:
        return _DECODER.decode(text.decode())
    except RecursionError:
        raise OddReplyError(f"{what} is nested too deeply") from None
    except OddReplyError as error:
        raise OddReplyError(f"{what} {error}") from None
    except ValueError:
        raise OddReplyError(f"{what} is not JSON") from None


def read(kind: type[T], value: object) -> T:
    """Return a value as a type of the protocol; OddReplyError where it is none."""
    return cast("T", _reader(cast("Hashable", kind), "the reply")(value))


def read_text(value: object, what: str = "the message") -> str:
    """Return an untrusted text, cut and printable as UTF-8; OddReplyError where it is none."""
    if not isinstance(value, str):
        raise OddReplyError(f"{what} is no text")
    short = value[:MAX_TEXT]
    return short if short.isascii() else short.encode(errors="replace").decode()


def relay_answer(text: bytes) -> protocol_programs.RelayAnswer | str | None:
    """Return the answer in a line of a relay, why it is none, or None for a line that is no object.

    The relay sends empty lines as signs of life.
    """
    if not text.startswith(b"{"):
        return None
    try:
        return read(protocol_programs.RelayAnswer, parse(text))
    except OddReplyError as error:
        return str(error)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise OddReplyError("has a field twice")
    return found


def _no_number(name: str) -> float:
    raise OddReplyError(f"has the number {name}")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_number)


@cache
def _reader(kind: Any, what: str) -> _Reader:
    """Return what reads a type; `what` is named where it is something else."""
    origin, inner = get_origin(kind), get_args(kind)
    if is_typeddict(kind):
        return _object(kind, what)
    if origin is NotRequired:
        return _reader(inner[0], what)
    if origin is Literal:
        return _choice(inner, what)
    if origin is types.UnionType:
        (some,) = (one for one in inner if one is not type(None))
        return _optional(_reader(some, what))
    if origin is list:
        return _list(_reader(inner[0], what), what, most=MAX_LINES if inner[0] is str else None)
    if origin is tuple:
        return _tuple([_reader(one, what) for one in inner], what)
    if origin is dict:
        return _dict(_reader(inner[1], what), what)
    return _PLAIN[kind](what)


_PARTS = (protocol_buckets, protocol_files, protocol_programs, protocol_ray, protocol_views, protocol)
"""Where the types of replies are; `protocol` is last, because others name what they import for mypy alone."""


def _object(kind: Any, what: str) -> _Reader:
    names = {name: one for part in _PARTS for name, one in vars(part).items()} | {"NotRequired": NotRequired}
    hints = {name: eval(hint.__forward_arg__, names) for name, hint in kind.__annotations__.items()}  # noqa: S307 ours
    required = {name for name, hint in hints.items() if get_origin(hint) is not NotRequired}
    readers = {name: _reader(hint, f"`{name}`") for name, hint in hints.items()}

    def object_of(value: object) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise OddReplyError(f"{what} is no object")
        if not required <= value.keys():
            raise OddReplyError(f"{what} has no `{min(required - value.keys())}`")
        return {name: readers[name](one) for name, one in value.items() if name in readers}

    return object_of


def _choice(allowed: Sequence[object], what: str) -> _Reader:
    def choice(value: object) -> object:
        if not isinstance(value, str) or value not in allowed:
            raise OddReplyError(f"{what} is none of {', '.join(map(str, allowed))}")
        return value

    return choice


def _optional(some: _Reader) -> _Reader:
    return lambda value: None if value is None else some(value)


def _list(each: _Reader, what: str, *, most: int | None) -> _Reader:
    def list_of(value: object) -> list[Any]:
        if not isinstance(value, list):
            raise OddReplyError(f"{what} is no list")
        return [each(one) for one in (value if most is None else value[-most:])]

    return list_of


def _tuple(each: Sequence[_Reader], what: str) -> _Reader:
    def tuple_of(value: object) -> tuple[Any, ...]:
        if not isinstance(value, list) or len(value) != len(each):
            raise OddReplyError(f"{what} is no list of {len(each)}")
        return tuple(reader(one) for reader, one in zip(each, value, strict=True))

    return tuple_of


def _dict(each: _Reader, what: str) -> _Reader:
    def dict_of(value: object) -> Mapping[str, Any]:
        if not isinstance(value, dict):
            raise OddReplyError(f"{what} is no object")
        return {name if name.isascii() else read_text(name): each(one) for name, one in value.items()}

    return dict_of


def _text(what: str) -> _Reader:
    def text(value: object) -> str:
        return value if type(value) is str and len(value) <= MAX_TEXT and value.isascii() else read_text(value, what)

    return text


def _flag(what: str) -> _Reader:
    def flag(value: object) -> bool:
        if not isinstance(value, bool):
            raise OddReplyError(f"{what} is neither true nor false")
        return value

    return flag


def _whole(what: str) -> _Reader:
    def whole(value: object) -> int:
        if type(value) is not int or not -_MAX_INT <= value <= _MAX_INT:
            raise OddReplyError(f"{what} is no whole number")
        return value

    return whole


def _number(what: str) -> _Reader:
    def number(value: object) -> float:
        # The comparison is false for what is no number, too (NaN).
        if type(value) not in (float, int) or not -_MAX_FLOAT <= cast("float", value) <= _MAX_FLOAT:
            raise OddReplyError(f"{what} is no possible number")
        return cast("float", value)

    return number


_PLAIN: Mapping[Any, Callable[[str], _Reader]] = {
    bool: _flag,
    int: _whole,
    float: _number,
    str: _text,
    Any: lambda _: lambda value: value,
}
