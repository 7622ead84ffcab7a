"""Tables of fields and the shapes of values: one place for the parser, the JSON Schema and the docs."""
