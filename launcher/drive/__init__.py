"""The loop that drives a run: observe, reconcile, journal, execute; and the processes around it."""
