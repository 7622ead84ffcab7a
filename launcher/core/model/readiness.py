"""How to ask the server of a group whether it is ready."""

from collections.abc import Mapping
from dataclasses import dataclass, field

TIMEOUT_S = 15.0
"""How long an answer may take (s), as with SkyPilot."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadinessProbe:
    """An HTTP request to rank 0 of a group, on the rank's own machine; a status below 400 means that it is ready.

    It is a POST of `body` (JSON) where there is one, else a GET. `timeout` is in seconds. `$NAME` and `${NAME}` in
    `path`, `body` and `headers` stand for variables of the rank, and are expanded there only: they may be secrets.
    """

    path: str
    port: int
    timeout: float = TIMEOUT_S
    body: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
