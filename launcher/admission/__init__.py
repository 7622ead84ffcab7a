"""May this start, where, and now do it: the use cases between a request and a running controller. No printing."""
