"""What each Xid calls for, after NVIDIA's catalogue of Xid errors (r580), folded into what a launcher can do.

The driver's own recovery action, where it gives one, beats this table.
"""

from enum import Enum, unique


@unique
class XidAction(Enum):
    """What a launcher does about an Xid, the gravest first."""

    REPLACE = "replace"
    NEEDS_RESET = "needs reset"
    SYMPATHETIC = "sympathetic"
    RESTART_APP = "restart app"
    NOTE = "note"


_REPLACE = frozenset(
    {
        46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158,
        # The catalogue names no action for these yet: PCIe fatal timeout, memory lost, microcontroller halt (as 62),
        # and uncorrectable DRAM or SRAM, which come with a 48.
        167, 168, 169, 171, 172,
    }
)  # fmt: skip
"""RESET_GPU, RESTART_BM and RESTART_VM: no user of ours can do these, so the node is given back to its operator."""

_RESTART_APP = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, *range(82, 87), 88, 89, 94}
    | {*range(96, 106), *range(126, 136), 139}
)
"""RESTART_APP: the program's own fault, or contained to it."""

_SYMPATHETIC = frozenset({45, 137, 159})
"""Follows from an error elsewhere: look for the primary one."""

_NEEDS_RESET = frozenset({63})
"""Memory rows were remapped: good until the next reset, which should come when the node is idle."""

NVLINK5 = range(144, 151)
RECOVERY_CHANGED = 154
NVLINK4 = 74
LINK_DOWN = 149

PEER_AT_FAULT = frozenset({21, *range(32, 38)})
"""Subcodes (bits 20 to 25 of the first word) of a link that went down from its other end: INVESTIGATE_PEER_DEVICE."""

HARMLESS = frozenset({38, 40})
"""Subcodes of a link that was taken down on purpose, by software or by the host: IGNORE."""

_WORDS = {
    13: "graphics engine exception",
    31: "GPU memory page fault",
    45: "preemptive cleanup",
    48: "double bit ECC error",
    62: "internal micro-controller halt",
    63: "memory rows remapped",
    64: "memory row remapping failed",
    74: "NVLink error",
    79: "GPU has fallen off the bus",
    94: "contained memory error",
    95: "uncontained memory error",
    109: "context switch timeout",
    119: "GSP RPC timeout",
    120: "GSP error",
    121: "C2C error",
    136: "link training failed",
    137: "NVLink privilege error",
    140: "ECC unrecovered error",
    143: "GPU initialisation error",
    144: "NVLink SAW error",
    145: "NVLink RLW error",
    146: "NVLink TLW error",
    147: "NVLink TREX error",
    148: "NVLink NVLPW error",
    149: "NVLink NETIR error",
    150: "NVLink MSE error",
    154: "GPU recovery action changed",
    158: "GPU fatal timeout",
    167: "PCIe fatal timeout",
    171: "uncorrectable DRAM error",
    172: "uncorrectable SRAM error",
}


def words(code: int) -> str:
    """Return what an Xid is, in a few words."""
    return f"Xid {code}, {_WORDS[code]}" if code in _WORDS else f"Xid {code}"


def action(code: int) -> XidAction:
    """Return what a code calls for by itself; those of NVLink 5 need the rest of the line, see `xid.py`."""
    for codes, found in (
        (_REPLACE, XidAction.REPLACE),
        (_RESTART_APP, XidAction.RESTART_APP),
        (_SYMPATHETIC, XidAction.SYMPATHETIC),
        (_NEEDS_RESET, XidAction.NEEDS_RESET),
    ):
        if code in codes:
            return found
    return XidAction.NOTE


def nvlink5(code: int, *, fatal: bool | None, subcode: int | None) -> XidAction:
    """Return what an error of NVLink 5 calls for: severity as printed, subcode from its first word.

    One link that dies makes the others of its domain print 145 by the dozen: what is not fatal fails nobody, nor
    does what the hardware lays at the other end. Without a severity the driver's recovery action has to tell.
    """
    if fatal and code == LINK_DOWN and subcode in PEER_AT_FAULT:
        return XidAction.SYMPATHETIC
    if fatal:
        return XidAction.NOTE if code == LINK_DOWN and subcode in HARMLESS else XidAction.REPLACE
    return XidAction.SYMPATHETIC if code == 145 else XidAction.NOTE
