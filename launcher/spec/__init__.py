"""YAML with positions to core types; nothing else ever sees a raw mapping."""
