"""YAML files to core types, with every mistake of a file at once and its position; nothing here touches a machine."""
