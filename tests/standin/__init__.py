"""Thousands of machines in one process: the launcher's own SSH sessions end there, and agents answer by the protocol."""
