"""Keys of a task that are checked and then refused: no code executes them yet.

To support a key, remove its line from this table.
"""

from collections.abc import Mapping
from dataclasses import replace

from launcher.config.schema.fields import Field, Use

# By the name of the key, at any depth of the file: the hint what to do instead.
UNSUPPORTED: Mapping[str, str] = {}


def as_built(row: Field) -> Field:
    """Return the field of a key; one that refuses it while the table lists it."""
    if row.use is not Use.EXECUTED or row.name not in UNSUPPORTED:
        return row
    return replace(row, use=Use.LATER, instead=UNSUPPORTED[row.name])
