"""Task and inventory files, and inventories of other programs.

YAML becomes core types, and other formats become our YAML. A file is read to its end, and every mistake is reported
with its line and column. Nothing here contacts a machine.

| folder | holds |
|---|---|
| `yaml/` | YAML text to nodes with positions, without knowing any key |
| `schema/` | tables of keys and the types of values, which the parser, the JSON Schema and the docs share |
| `task/` | the keys of a task file, ours and SkyPilot's, to a `Task` |
| `inventory/` | the keys of an inventory file to an `Inventory`; amending such a file; exporting it to Slurm |
| `importers/` | inventories of other programs, one module a format |
"""
