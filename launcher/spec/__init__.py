"""YAML with positions to core types: nothing past this package ever sees raw YAML, and no mistake hides another.

`document` makes nodes, `shapes` and `fields` read them by the tables in `task_fields` and `inventory_fields` (of which
the JSON Schema is made as well), `task` and `inventory` build core types of what was read.
"""
