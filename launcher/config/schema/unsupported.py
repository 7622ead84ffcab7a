"""Keys of a task that are read and checked in full, and then refused by their name: no code runs them yet.

The one table of them. Whoever builds what a key asks for removes its line here, and nothing else has to change.
"""

from collections.abc import Mapping
from dataclasses import replace

from launcher.config.schema.fields import Field, Use

# By the name of the key, wherever in the file it stands: what to do instead.
UNSUPPORTED: Mapping[str, str] = {}


def as_built(row: Field) -> Field:
    """Return the row of a key that would be executed, refused by name while the table has it."""
    if row.use is not Use.EXECUTED or row.name not in UNSUPPORTED:
        return row
    return replace(row, use=Use.LATER, instead=UNSUPPORTED[row.name])
