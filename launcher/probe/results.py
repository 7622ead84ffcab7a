"""Results of the probes of a node.

The input is not trusted: it is bounded, and reading it never raises.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass

MARK = b"nvlaunch-facts "
"""The beginning of the line with the results; a login script may print other lines."""

MAX_ANSWER = 32 * 1024 * 1024
"""Bytes; twice the limit of all probes together."""

MAX_WORDS = 300
"""Characters of a program's own message that are shown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Unknown:
    """A fact that could not be read, and why.

    Its program timed out (`hung`), is `missing`, or `failed`. `unreachable` means that the whole node did not answer,
    `no_job` that Slurm does not let us in.
    """

    why: str
    unreachable: bool = False
    no_job: bool = False
    hung: bool = False
    missing: bool = False
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult:
    """How a probe ended. `rc` None: it could not be killed.

    `elapsed`, and `age` since its end, are in seconds. `dropped` counts bytes that were cut out of the output, `lines`
    the lines of a log before it was filtered.
    """

    rc: int | None
    out: str
    err: str = ""
    elapsed: float = 0.0
    age: float = 0.0
    timed_out: bool = False
    dropped: int = 0
    lines: int = 0


ProbeResults = Mapping[str, ProbeResult]
"""The results of a node by the name of the probe."""


def read_results(output: bytes) -> ProbeResults | Unknown:
    """Return the results in the output of a node."""
    line = next((line for line in reversed(output[:MAX_ANSWER].splitlines()) if line.startswith(MARK)), None)
    if line is None:
        return Unknown(why=f"the node sent an unexpected answer: {first_words(output.decode(errors='replace'))}")
    found = decode(line[len(MARK) :].decode(errors="replace"))
    if not isinstance(found, dict):
        return Unknown(why="the answer of the node is cut off")
    return {name: _result(item) for name, item in found.items() if isinstance(item, dict)}


def _result(item: Mapping[str, object]) -> ProbeResult:
    rc = item.get("rc")
    return ProbeResult(
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
    """Return the value of a JSON text; None if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def string(item: Mapping[str, object], key: str) -> str:
    """Return a text of an untrusted object; empty if there is none."""
    value = item.get(key)
    return value if isinstance(value, str) else ""


def number(item: Mapping[str, object], key: str) -> float:
    """Return a finite number of an untrusted object; 0 if there is none."""
    value = item.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    return float(value) if abs(value) < 1e18 else 0.0


def first_words(text: str) -> str:
    """Return the first line that is not blank, printable and shortened."""
    line = next((line.strip() for line in text[:4096].splitlines() if line.strip()), "nothing")
    return "".join(c if c.isprintable() else "?" for c in line[:MAX_WORDS])


def failure_of(result: ProbeResult | None, what: str) -> Unknown | None:
    """Return why a probe gives no information about `what`.

    None if its output can be parsed.
    """
    if result is None:
        return Unknown(why=f"no result of {what}")
    if result.rc is None:
        return Unknown(why=f"{what} hangs and cannot be killed (after {result.elapsed:.0f} s)", hung=True)
    if result.timed_out:
        return Unknown(why=f"{what} did not answer within {result.elapsed:.0f} s", hung=True)
    if result.rc == 127:
        return Unknown(why=f"{what} not found", missing=True)
    if result.rc != 0:
        return Unknown(why=f"{what} failed with {result.rc}: {first_words(result.err or result.out)}", failed=True)
    return None


def read_object(result: ProbeResult | None, what: str) -> Mapping[str, object] | Unknown:
    """Return the JSON object that a probe printed."""
    why = failure_of(result, what)
    found = decode(result.out) if result and not why else None
    return why or (found if isinstance(found, dict) else Unknown(why=f"the output of {what} cannot be parsed"))
