"""Commands that plan: sizes of slices, a fleet over time, moves."""
