"""Tables of keys and types of values, for the parser, JSON Schema and docs.

A new key is one `Field` in `task/fields.py` or `inventory/fields.py`. A new type of value is one class with `read` and
`schema`: here if both kinds of file use it, else beside the table that does.
"""
