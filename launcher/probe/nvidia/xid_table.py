"""The action for each Xid, by NVIDIA's catalogue of Xid errors (r580).

Actions are reduced to what a launcher can do. If the driver reports a recovery action, that takes precedence over this
table.
"""

from enum import Enum, unique


@unique
class XidAction(Enum):
    """What a launcher does about an Xid, the most severe first."""

    REPLACE = "replace"
    NEEDS_RESET = "needs reset"
    SYMPATHETIC = "sympathetic"
    RESTART_APP = "restart app"
    NOTE = "note"


_REPLACE = frozenset(
    {
        46, 48, 62, 64, 79, 95, 109, 110, 119, 120, 136, 140, 143, 151, 155, 156, 158,
        # The catalogue has no action for these yet: PCIe fatal timeout, memory lost, microcontroller halt (like 62),
        # and uncorrectable DRAM or SRAM errors, which occur together with 48.
        167, 168, 169, 171, 172,
    }
)  # fmt: skip
"""RESET_GPU, RESTART_BM and RESTART_VM: only an operator can do these, so the node is replaced."""

_RESTART_APP = frozenset(
    {8, 11, 13, 25, 31, 32, 39, 40, 41, 60, *range(68, 73), 75, 76, 77, 80, *range(82, 87), 88, 89, 94}
    | {*range(96, 106), *range(126, 136), 139}
)
"""RESTART_APP: a fault of the program, or contained in it."""

_SYMPATHETIC = frozenset({45, 137, 159})
"""The consequence of another error, which is the one to act on."""

_NEEDS_RESET = frozenset({63})
"""Memory rows were remapped: usable until the next reset, which should be done when the node is idle."""

NVLINK5 = range(144, 151)
RECOVERY_CHANGED = 154
NVLINK4 = 74
LINK_DOWN = 149

PEER_AT_FAULT = frozenset({21, *range(32, 38)})
"""Subcodes (bits 20 to 25 of the first word) of a link that its peer took down: INVESTIGATE_PEER_DEVICE."""

HARMLESS = frozenset({38, 40})
"""Subcodes of a link that was taken down on purpose, by software or by the host: IGNORE."""

_TITLES = {
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


def title(code: int) -> str:
    """Return an Xid with its name: `Xid 79, GPU has fallen off the bus`."""
    return f"Xid {code}, {_TITLES[code]}" if code in _TITLES else f"Xid {code}"


def action(code: int) -> XidAction:
    """Return the action for a code; for codes of NVLink 5 use `nvlink5`."""
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
    """Return the action for an error of NVLink 5.

    It depends on the printed severity and on the subcode of the first word. When one link fails, the other nodes of its
    domain log many errors 145. So errors that are not fatal, or that the hardware attributes to the peer, are no reason
    to replace a node. Without a severity only the driver's recovery action counts.
    """
    if fatal and code == LINK_DOWN and subcode in PEER_AT_FAULT:
        return XidAction.SYMPATHETIC
    if fatal:
        return XidAction.NOTE if code == LINK_DOWN and subcode in HARMLESS else XidAction.REPLACE
    return XidAction.SYMPATHETIC if code == 145 else XidAction.NOTE
