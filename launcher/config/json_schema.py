"""JSON Schema of task and inventory files, for editors.

It is generated from the tables of the parser.
"""

from collections.abc import Mapping
from enum import Enum

from launcher.config.inventory.fields import INVENTORY
from launcher.config.schema.fields import Section
from launcher.config.task.fields import TASK


class SpecKind(Enum):
    """A kind of file."""

    TASK = "task"
    INVENTORY = "inventory"


_SECTIONS: Mapping[SpecKind, Section] = {SpecKind.TASK: TASK, SpecKind.INVENTORY: INVENTORY}


def json_schema(kind: SpecKind) -> Mapping[str, object]:
    """Return the JSON Schema (2020-12) of a kind of file.

    It has the names and types of keys, but no rules between keys.
    """
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"nvlaunch {kind.value}",
        **_SECTIONS[kind].schema(),
    }


def schema_file(kind: SpecKind) -> str:
    """Return the file name of a schema."""
    return f"nvlaunch-{kind.value}.schema.json"
