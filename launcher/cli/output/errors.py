"""Errors as text: message, evidence, hints."""

import re
import sys
from collections.abc import Iterable, Iterator

from launcher.cli.output.console import Colour, clean, paint
from launcher.errors import LaunchError, Mistake, NoCapacityError, ProvisionError, RemoteError, SpecError

MOST = 40
"""How many mistakes of a file are shown."""


def error_text(error: LaunchError) -> str:
    """Return an error as text; equal hints appear once."""
    return "\n".join(_lines(error))


def usage_text(error: Exception) -> str:
    """Return the text for a command line that typer rejects."""
    message = " ".join(getattr(error, "format_message", lambda: str(error))().split()).replace("'", "`")
    context = getattr(error, "ctx", None)
    hint = f"`{context.command_path if context else 'nvlaunch'} --help` shows its arguments and options"
    if getattr(context, "info_name", "") == "exec" and message.lower().startswith("no such option"):
        hint = "put `--` before the command: `nvlaunch exec RUN -- nvidia-smi -L`"
    if close := re.search(r" Did you mean (.+)\?$| \(Possible options: (.+)\)$", message):
        message = message[: close.start()]
        hint = f"did you mean {close[1] or f'`{close[2]}`'}?"
    return "\n".join((_error(_our_words(message)), _hint(hint)))


def mistake_text(mistake: Mistake) -> str:
    """Return one mistake as `file:line:col: what`, the form that editors jump to."""
    place = ":".join(str(part) for part in (mistake.where, mistake.line, mistake.column) if part)
    return clean(f"{place}: {mistake.what}" if place else mistake.what)


def warning_text(mistake: Mistake) -> str:
    """Return a mistake that stops nothing as a warning, with its hint."""
    return "\n".join(_warning(mistake))


def _lines(error: LaunchError) -> Iterator[str]:
    match error:
        case SpecError():
            for warning in error.warnings[:MOST]:
                yield from _warning(warning)
            yield from _mistakes(error.mistakes)
            return
        case NoCapacityError():
            from launcher.cli.output.shortfall import shortfall_lines

            yield _error(error.message)
            yield from shortfall_lines(error.shortfall, error.straddling)  # its suggestions are the first hints
            yield from _hints(hint for hint in error.hints if hint not in error.shortfall.suggestions)
            return
        case RemoteError():
            yield _error(f"{error.node}: {error.message} ({error.stage}, after {error.elapsed:.0f} s)")
            yield from _quoted(error.tail)
        case ProvisionError():
            yield _error(error.message)
            yield from _outcomes(error.outcomes)
        case _:
            yield _error(error.message)
    yield from _hints(error.hints)


def _mistakes(mistakes: tuple[Mistake, ...]) -> Iterator[str]:
    """Return mistakes, each with its hint.

    At most `MOST`, as a file of another kind has one on each line.
    """
    for mistake in mistakes[:MOST]:
        yield _error(mistake_text(mistake))
        if mistake.hint:
            yield _hint(mistake.hint)
    if len(mistakes) > MOST:
        yield f"and {len(mistakes) - MOST} more"
    if len(mistakes) > 1:
        yield f"{len(mistakes)} mistakes; nothing was started"


def _warning(mistake: Mistake) -> Iterator[str]:
    yield f"{paint('warning', Colour.DOUBT, sys.stderr)}: {mistake_text(mistake)}"
    if mistake.hint:
        yield _hint(mistake.hint)


def _outcomes(outcomes: tuple[tuple[str, str], ...]) -> Iterator[str]:
    """Return what came of each node; equal messages share a line: `r07-n[01-15]: ok`."""
    from launcher.core.model.nodeset import fold_messages

    for nodes, words in fold_messages(outcomes):
        yield clean(f"  {nodes}: {words}")


def _hints(hints: Iterable[str]) -> Iterator[str]:
    for hint in dict.fromkeys(hints):
        yield _hint(hint)


def _quoted(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield clean(f"  | {line}")


def _error(what: str) -> str:
    return f"{paint('error', Colour.BAD, sys.stderr)}: {clean(what)}"


def _hint(what: str) -> str:
    return f"{paint('hint', Colour.POINTER, sys.stderr)}: {clean(what)}"


def _our_words(message: str) -> str:
    """Return a message of typer in the style of other errors.

    Lower case, backticks, no full stop.
    """
    message = re.sub(r"option: (\S+)", r"option `\1`", message)
    message = message.removeprefix("Got ")
    return (message[:1].lower() + message[1:]).rstrip(".")
