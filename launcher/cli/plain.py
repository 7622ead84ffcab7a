"""Fast conversion of command line arguments.

Typer since 0.24 builds a pydantic adapter for each parameter that is not a flag, which delays `status` by 0.1 s. The
parameters here are text, paths, integers and enums, alone or in lists, and need no adapter.
"""

import re
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Any, get_args, get_origin

import typer
from typer.core import TyperCommand, TyperGroup

from launcher.cli.output.console import show


class PlainCommand(TyperCommand):
    """A command that converts its arguments itself."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the remaining arguments."""
        _make_plain(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the `--help` option, which writes to stdout like other data."""
        return _with_our_output(super().get_help_option(ctx))


class PlainGroup(TyperGroup):
    """The same for the options before the command."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Return the remaining arguments."""
        _make_plain(self.get_params(ctx))
        return super().parse_args(ctx, args)

    def get_help_option(self, ctx: Any) -> Any:
        """Return the `--help` option, which writes to stdout like other data."""
        return _with_our_output(super().get_help_option(ctx))


def _with_our_output(option: Any) -> Any:
    """Replace typer's own output.

    It treats a full disk as a bug, and a closed pipe as a failure.
    """
    if option is not None:
        option.callback = _show_help
    return option


def _show_help(ctx: Any, _: Any, asked: bool) -> None:
    if asked and not ctx.resilient_parsing:
        show(ctx.get_help())
        ctx.exit()


def _make_plain(params: Iterable[Any]) -> None:
    for param in params:
        if hasattr(param, "get_runtime_param"):  # typer before 0.24 has no adapters
            param.get_runtime_param = _Plain(param.type_descriptor.annotation)


class _Plain:
    """Takes the place of typer's adapter for a parameter."""

    def __init__(self, annotation: Any) -> None:
        self._annotation = annotation

    def __call__(self) -> "_Plain":
        return self

    def coerce(self, value: Any, param: Any, ctx: typer.Context) -> Any:
        """Return the value of a parameter; BadParameter for an invalid argument."""
        several = get_origin(self._annotation) is list
        if value is None:
            return () if several or param.nargs == -1 else None
        try:
            if several:
                (kind,) = get_args(self._annotation)
                return [_value(kind, one) for one in value]
            if get_origin(self._annotation) is tuple:
                kinds = get_args(self._annotation)
                return tuple(_value(kind, one) for kind, one in zip(kinds, value, strict=True))
            return _in_range(_value(self._annotation, value), param)
        except ValueError as error:
            raise typer.BadParameter(str(error), ctx=ctx, param=param) from error


def _value(kind: Any, word: Any) -> Any:
    if isinstance(word, kind):
        return word
    if kind is int:
        if not word.lstrip("+-").isdecimal():
            raise ValueError(f"`{word}` is not a whole number")
        return int(word)
    if kind is float:
        if not re.fullmatch(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)", word):
            raise ValueError(f"`{word}` is not a number")
        return float(word)
    if kind is Path:
        return Path(word)
    if issubclass(kind, Enum):
        known = {one.value: one for one in kind}
        if word not in known:
            raise ValueError(f"`{word}` is not one of {', '.join(f'`{name}`' for name in known)}")
        return known[word]
    raise TypeError(f"cannot convert an argument to {kind}")


def _in_range(value: Any, param: Any) -> Any:
    low = getattr(param, "min", None)
    if low is not None and value < low:
        raise ValueError(f"`{value}` is less than {low}")
    return value
