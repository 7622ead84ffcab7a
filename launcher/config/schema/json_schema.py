"""The JSON Schema of task and inventory files, for editors; made of the tables that the parser reads by."""

from collections.abc import Mapping
from enum import Enum

from launcher.config.inventory.fields import INVENTORY
from launcher.config.schema.fields import Section
from launcher.config.task.fields import TASK


class SpecKind(Enum):
    """What a file can be."""

    TASK = "task"
    INVENTORY = "inventory"


_SECTIONS: Mapping[SpecKind, Section] = {SpecKind.TASK: TASK, SpecKind.INVENTORY: INVENTORY}


def json_schema(kind: SpecKind) -> Mapping[str, object]:
    """Return the JSON Schema (2020-12) of a kind of file; it knows shapes and names, not what must fit together."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"nvlaunch {kind.value}",
        **_SECTIONS[kind].schema(),
    }


def schema_file(kind: SpecKind) -> str:
    """Return the name of the file that holds a schema beside the files it describes."""
    return f"nvlaunch-{kind.value}.schema.json"
