"""May this task start, and where: the use cases between a request and a run with its claims. Nothing here prints."""
