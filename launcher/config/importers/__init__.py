"""Inventories of other programs: one module a format, and our writer.

To add a format:

1. Write a module with `read(text: str, collector: HostCollector) -> None` that adds each host to the collector.
   `foreign_yaml` reads YAML with positions, `text_lines` reads lines; `hostfile` is a short example.
2. Register it in `formats.py`: a member of `InventoryFormat` (its value is the word for `--as`) and a row of `FORMATS`.
3. Teach `detect.py` to recognise it. JSON goes to `kubernetes` unless you decide before that.
4. Add files to `tests/corpus/inventories`, each with its result in `.said`; add words to `test_importers_fuzz`.
5. Name it in the help text of `cli/commands/inventory/import_.py`.

`read` imports a file, `collector` checks names and addresses, `write` writes an `ImportedInventory` as our YAML. A
reader only parses text. It reports what it skips as a warning with its line, and never guesses a rack.
"""
