"""The loop that drives a run.

Observe, reconcile, journal, execute; and the processes around it.
"""
