"""May this task start, and where.

The use cases between a request and a run with its claims. Nothing here prints.
"""
