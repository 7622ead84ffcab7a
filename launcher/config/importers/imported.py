"""A machine as another program's inventory describes it."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportedHost:
    """One machine of a file, first named on `line`.

    A field is None if the file does not tell it.
    """

    name: str
    line: int = 0
    address: str | None = None
    user: str | None = None
    port: int | None = None
    identity_file: str | None = None
    proxy_jump: str | None = None
    rack: str | None = None
    domain: str | None = None
    gpus: int | None = None
    accelerator: str | None = None
    drained: str | None = None
    places: Mapping[str, str] = field(default_factory=dict)
