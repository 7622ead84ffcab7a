"""Rendering: errors, tables, maps, progress."""
