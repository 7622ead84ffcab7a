"""The commands, one file each: arguments in, one use case, one exit code."""
