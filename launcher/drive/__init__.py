"""The only loops: observe, reconcile, journal, execute."""
