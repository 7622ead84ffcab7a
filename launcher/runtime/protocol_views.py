"""The statuses of nodes as they go to the launcher through the head's agent.

A part of `protocol.py`. A node sends its status with its heartbeats (`own_status.py`), the head's agent keeps the
newest of each node as it came (`status_board.py`), and the launcher asks what has changed since its last look.
Heartbeats are not encrypted: so what goes with them has states, numbers and names, and nothing that a program printed.
"""

from __future__ import annotations

import base64
import json
import zlib
from typing import TYPE_CHECKING, Any, TypedDict

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_TEXT = 4000
"""Characters of a packed status. Of a larger one only `DIRECT` is sent; a usual one has 150."""

MOST_BYTES = 256 << 10
"""Bytes of an unpacked status."""

DIRECT = "-"
"""In place of a status: it is too large, ask the node itself."""

TROUBLE = "ask the node"
"""In place of a message."""

GONE = ""
"""In place of the status of a node that has left."""

FRESH_S = 1.1
"""Seconds: the head's agent names the nodes whose status was confirmed longer ago. Heartbeats come twice a second, a
status is made four times a second, and the head's agent knows the time of an arrival to a quarter of a second."""

CALM_S = 10.0
"""Seconds of a rank without output that are no change of a status; longer ones are exact."""

_PASSING = ("reachable", "head_silence", "head_unheard", "version", "protocol")
"""Fields of a status that are not sent, or are no part of what is compared."""

_TIMES = ("quiet", "unready", "ended_ago", "step")
"""Fields of a rank that change by themselves."""

_USUAL = (
    b'"images": {}, "fault": {"stage": "", "path": "", "errno": "ENOSPC"}, "tail": ["Traceback (most recent call last):'
    b'"], "phase": "failed", "phase": "absent", "exit_code": 1, "ended_ago": 0.1, "running": false, "ready": true, '
    b'"unready": 0.0, "step": {"step": 100, "over": 50, "own": 0.5}, {"agent":1234,"block":6400,"followed":"10.0.0.1",'
    b'"head_bound":false,"member":"main/0","mounts":[],"ok":true,"protocol":2,"ranks":[{"attempt":1,"member":"main/0",'
    b'"quiet":0.1,"running":true}],"ray":{"generation":0,"message":"","phase":"running"},"setup":{"exit_code":0,'
    b'"generation":0,"message":"","phase":"done","tail":[]},"version":["0123456789abcdef",1]}'
)
"""What most statuses have in common: both ends know it, so it need not be sent."""


class NodeStatusRow(TypedDict):
    """The newest status of a node.

    `made` is how long ago it was made, `data` the packed status, `DIRECT` or `GONE`.
    """

    name: str
    data: str
    made: float


class NodeViews(TypedDict):
    """What has changed since the change `number` of the last answer.

    `epoch` is another one once numbers begin anew. `more`: not all changes are here. `late` is how long ago the status
    of a node was last confirmed, where that is more than `FRESH_S` (s).
    """

    epoch: str
    number: int
    more: bool
    rows: list[NodeStatusRow]
    late: dict[str, float]


def without_texts(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return a status without lines for people; where there were some, it still says that something is wrong."""
    kept = dict(status)
    kept.pop("message", None)
    for name in ("ray", "setup"):
        if name in kept:
            kept[name] = {key: value for key, value in kept[name].items() if key != "tail"} | {"message": ""}
    if "ranks" in kept:
        kept["ranks"] = [{key: value for key, value in rank.items() if key != "tail"} for rank in kept["ranks"]]
    if "mounts" in kept:
        kept["mounts"] = [_without_words(row) for row in kept["mounts"]]
    if "fault" in kept:
        kept["fault"] = {**kept["fault"], "path": ""}
    if "images" in kept:
        kept["images"] = {}
    return kept


def text_number(status: Mapping[str, Any]) -> int:
    """Return a number that is another one where messages are others, which `without_texts` removes; 0 for none."""
    messages = "\n".join(status[name]["message"] for name in ("ray", "setup") if name in status)
    return zlib.crc32(messages.encode()) if messages.strip() else 0


def _without_words(row: Mapping[str, Any]) -> dict[str, Any]:
    message = TROUBLE if row["message"] else ""
    return {"to": "", "url": "", "up": row["up"], "message": message, "unsent": 0, "unsent_bytes": 0}


def packed(status: Mapping[str, object]) -> str:
    """Return a status as one word; `DIRECT` where it is too large."""
    packer = zlib.compressobj(zdict=_USUAL)
    text = json.dumps(status, sort_keys=True, separators=(",", ":")).encode()
    if len(text) > MOST_BYTES:
        return DIRECT
    data = base64.b64encode(packer.compress(text) + packer.flush()).decode()
    return data if len(data) <= MOST_TEXT else DIRECT


def unpacked(data: str) -> bytes:
    """Return the JSON text of a packed status, which is bounded in size; ValueError where it is none."""
    unpacker = zlib.decompressobj(zdict=_USUAL)
    try:
        text = unpacker.decompress(base64.b64decode(data, validate=True), MOST_BYTES)
    except zlib.error as error:
        raise ValueError(f"the status cannot be unpacked: {error}") from None
    if not unpacker.eof:
        raise ValueError("the status does not end, or is too large")
    return text


def lasting(status: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a status changes only by an event: equal in two statuses of one version."""
    kept = {name: value for name, value in without_texts(status).items() if name not in _PASSING}
    if "ranks" in kept:
        kept["ranks"] = [{k: v for k, v in rank.items() if k not in _TIMES} for rank in kept["ranks"]]
    return kept
