"""The commands, one file each: arguments, one use case, one exit code."""
