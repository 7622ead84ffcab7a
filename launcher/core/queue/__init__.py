"""Whose turn it is among runs that wait: backfill, the timeline of releases, preemption."""
