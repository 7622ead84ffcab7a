"""GPU errors (Xids) in the kernel log.

A line is `NVRM: Xid (PCI:0018:01:00): 145, pid=1, name=x, RLW_RXPIPE Nonfatal ...`. Times are seconds since boot,
because wall-clock times of the log drift after a suspend. A log that the user may not read is Unknown, not free of
errors.
"""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from launcher.probe.nvidia import pci, xid_table
from launcher.probe.nvidia.xid_table import XidAction
from launcher.probe.results import ProbeResult, Unknown, failure_of

JOURNAL_COMMAND = ("journalctl", "-k", "-b", "-o", "short-monotonic", "--no-pager", "-q")

DMESG_COMMAND = ("sh", "-c", "dmesg 2>/dev/null || exec sudo -n dmesg")

KEEP = ("NVRM",)
"""Text of the lines that the node sends; it drops all others."""

LIMIT = 512 * 1024
TIMEOUT = 15.0
MAX_LINE = 1024
MAX_XIDS = 2000

_LINE = re.compile(
    r"(?:\[\s*([0-9]{1,10}\.[0-9]{1,9})\])?.*?NVRM: Xid \((?:PCI:)?([0-9a-fA-F:.]{5,16})\): ([0-9]{1,5})\b,?\s*(.*)"
)
_STAMP = re.compile(r"\[\s*([0-9]{1,10}\.[0-9]{1,9})\]")
_PID = re.compile(r"\bpid='?([0-9]{1,10})\b")
# Greedy on the left: a program may have the name `x Fatal XC0`, but it is printed before the text of the driver.
_DETAIL = re.compile(r".*\b([A-Z][A-Z0-9_]{2,40})\s+(Fatal|Nonfatal)\s+XC[0-9]")
_WORD = re.compile(r"\(0x([0-9a-fA-F]{1,8})\b")
_RECOVERY = re.compile(r".*\bto 0x([0-9a-fA-F]{1,4}) \(")
_GONE = re.compile(r"GPU ([0-9a-fA-F:.]{7,16}): GPU has fallen off the bus")
_NAMED = re.compile(r"The NVIDIA GPU ([0-9a-fA-F:.]{7,16})\s*$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Xid:
    """One error of a GPU, and what to do.

    `at` is in seconds since boot (None without a time), `bus` as in `0018:01:00`.
    """

    at: float | None
    code: int
    bus: str | None
    text: str
    action: XidAction
    pid: int | None = None


def read_xids(result: ProbeResult | None, what: str) -> tuple[Xid, ...] | Unknown:
    """Return the errors in a kernel log, oldest first.

    `what` names the program that printed it.
    """
    why = failure_of(result, what)
    if result is None or why:
        return why or Unknown(why=f"no result of {what}")
    if result.lines == 0:
        return Unknown(why=f"{what} printed no kernel log: this user has no permission to read it")
    return parse_xids(result.out)


def parse_xids(log: str) -> tuple[Xid, ...]:
    """Return the errors in a text.

    Of more than MAX_XIDS, the first and the last half of that number.
    """
    found = list(_each(log))
    half = MAX_XIDS // 2
    return tuple(found if len(found) <= MAX_XIDS else found[:half] + found[-half:])


def _each(log: str) -> Iterator[Xid]:
    named: str | None = None
    for whole in log.splitlines():
        line = whole[:MAX_LINE]
        match = _LINE.match(line)
        if match:
            stamp, address, code, text = match.groups()
            yield _xid(_seconds(stamp), int(code), pci.canonical(address), text.strip())
            continue
        # A lost GPU may be logged without the word Xid, in one line or in three.
        if subject := _NAMED.search(line):
            named = pci.canonical(subject[1])
        elif "NVRM" in line and "fallen off the bus" in line:
            gone = _GONE.search(line)
            bus = pci.canonical(gone[1]) if gone else named
            stamp_found = _STAMP.search(line)
            yield _xid(_seconds(stamp_found[1] if stamp_found else None), 79, bus, "GPU has fallen off the bus")


def _seconds(stamp: str | None) -> float | None:
    return float(stamp) if stamp else None


def _xid(at: float | None, code: int, bus: str | None, text: str) -> Xid:
    pid = _PID.search(text)
    return Xid(at=at, code=code, bus=bus, text=text, action=_action(code, text), pid=int(pid[1]) if pid else None)


def _action(code: int, text: str) -> XidAction:
    if code == xid_table.RECOVERY_CHANGED:
        # `from 0x4 (Drain and Reset) to 0x1 (GPU Reset Required)`; 0x0 is None.
        to = _RECOVERY.match(text)
        return XidAction.REPLACE if to and int(to[1], 16) else XidAction.NOTE
    if code in xid_table.NVLINK5:
        detail = _DETAIL.match(text)
        word = _WORD.search(text, detail.end() if detail else 0)
        subcode = int(word[1], 16) >> 20 & 0x3F if word else None
        return xid_table.nvlink5(code, fatal=detail[2] == "Fatal" if detail else None, subcode=subcode)
    return xid_table.action(code)


def standing(xids: Sequence[Xid]) -> tuple[Xid, ...]:
    """Return the errors that still require an action, the most severe first.

    Of several changes of the recovery action of a GPU the last one counts. Xid 74 counts if it occurred twice on a GPU.
    """
    last = {xid.bus: xid for xid in xids if xid.code == xid_table.RECOVERY_CHANGED}
    flaky = [xid for xid in xids if xid.code == xid_table.NVLINK4]
    erred = Counter(xid.bus for xid in flaky)
    repeated = [replace(xid, action=XidAction.REPLACE) for xid in flaky if erred[xid.bus] > 1]
    grave = [xid for xid in xids if xid.action in (XidAction.REPLACE, XidAction.NEEDS_RESET)]
    counted = [xid for xid in grave if xid.code != xid_table.RECOVERY_CHANGED or last[xid.bus] is xid]
    order = list(XidAction)
    return tuple(sorted(counted + repeated, key=lambda xid: order.index(xid.action)))
