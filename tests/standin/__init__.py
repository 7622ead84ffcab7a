"""Thousands of machines in one process: the launcher's SSH sessions end there, and agents answer by the protocol."""
