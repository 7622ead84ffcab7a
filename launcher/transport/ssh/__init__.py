"""Commands and files on one machine over SSH.

Connections are kept, host keys verified, and operations bounded in time.
"""
