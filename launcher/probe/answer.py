"""What a node sent back: how each probe went. Reads what a stranger wrote: it never raises, and is bounded."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

MARK = b"nvlaunch-facts "
"""What precedes the answer on its line; a login script may print whatever it likes before."""

MAX_ANSWER = 32 * 1024 * 1024
"""Bytes; twice what all probes together may print."""

MAX_WORDS = 300
"""Characters of a program's own words that are repeated to a person."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A fact that could not be seen, and why: the program asked gave no answer in time, is not there, or failed.

    `unreachable` is said of a whole node: nobody there could be asked.
    """

    why: str
    unreachable: bool = False
    hung: bool = False
    missing: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """How a probe went. `rc` None: it could not be killed. `elapsed` and `age` (how long ago it ended) in seconds.

    `dropped` counts bytes of output left out in the middle, `lines` those of a filtered log before the filter.
    """

    rc: int | None
    out: str
    err: str = ""
    elapsed: float = 0.0
    age: float = 0.0
    timed_out: bool = False
    dropped: int = 0
    lines: int = 0


Answers = Mapping[str, Ran]
"""The probes of a node by name."""


def read_answers(output: bytes) -> Answers | Unknown:
    """Return the probes in what a node printed."""
    line = next((line for line in reversed(output[:MAX_ANSWER].splitlines()) if line.startswith(MARK)), None)
    if line is None:
        return Unknown(why=f"the node answered with something else: {first_words(output.decode(errors='replace'))}")
    found = decode(line[len(MARK) :].decode(errors="replace"))
    if not isinstance(found, dict):
        return Unknown(why="the node's answer is cut off")
    return {name: _ran(item) for name, item in found.items() if isinstance(item, dict)}


def _ran(item: Mapping[str, object]) -> Ran:
    rc = item.get("rc")
    return Ran(
        rc=rc if isinstance(rc, int) else None,
        out=string(item, "out"),
        err=string(item, "err"),
        elapsed=number(item, "elapsed"),
        age=number(item, "age"),
        timed_out=item.get("timed_out") is True,
        dropped=int(number(item, "dropped")),
        lines=int(number(item, "lines")),
    )


def decode(text: str) -> object:
    """Return what a text of JSON holds; None where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def string(item: Mapping[str, object], key: str) -> str:
    """Return a text of an object from outside; empty where there is none."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


def number(item: Mapping[str, object], key: str) -> float:
    """Return a finite number of an object from outside; 0 where there is none."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if abs(value) < 1e18 else 0.0


def first_words(text: str) -> str:
    """Return the first line that says something, printable and short enough to repeat to a person."""
    line = next((line.strip() for line in text[:4096].splitlines() if line.strip()), "nothing")
    return "".join(c if c.isprintable() else "?" for c in line[:MAX_WORDS])


def failed(ran: Ran | None, what: str) -> Unknown | None:
    """Return why a probe says nothing about `what`; None where its output can be read."""
    if ran is None:
        return Unknown(why=f"{what} was not asked")
    if ran.rc is None:
        return Unknown(why=f"{what} hangs and cannot be killed ({ran.elapsed:.0f} s)", hung=True)
    if ran.timed_out:
        return Unknown(why=f"{what} gave no answer in {ran.elapsed:.0f} s", hung=True)
    if ran.rc == 127:
        return Unknown(why=f"{what} is not there", missing=True)
    if ran.rc != 0:
        return Unknown(why=f"{what} failed with {ran.rc}: {first_words(ran.err or ran.out)}", failed=True)
    return None


def read_object(ran: Ran | None, what: str) -> Mapping[str, object] | Unknown:
    """Return the JSON object that a probe printed."""
    why = failed(ran, what)
    found = decode(ran.out) if ran and not why else None
    return why or (found if isinstance(found, dict) else Unknown(why=f"{what} cannot be read"))
