"""Ray's tables, as the supervisor of a head tells them.

A part of `protocol.py`.
"""

from __future__ import annotations

from typing import TypedDict


class RayNodeStatus(TypedDict):
    """A raylet in Ray's table of nodes."""

    slot: str
    generation: int
    domain: str | None
    alive: bool


class BundleStatus(TypedDict):
    """Where Ray has a bundle: the labels of its node."""

    index: int
    slot: str | None
    domain: str | None
    generation: int | None


class GroupStatus(TypedDict):
    """The placement group of a slice in Ray's table."""

    slice: str
    state: str
    hint: str
    bundles: list[BundleStatus]
