"""Task files: our keys and SkyPilot's, read into a `Task`.

`fields` is the table of keys; `read` puts a task together from what the other modules read. To add a key, add a `Field`
to `fields` and its value to `Task` or `Group`. SkyPilot's keys that are ignored or refused are in `skypilot_keys`.
"""
