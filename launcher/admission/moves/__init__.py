"""Use cases of defragmentation: plan moves of slices, carry them out step by step, and do so where it is worth it."""
