"""The programs that run on nodes: standard library and Ray only.

Shipped as files and run by the node's own Python. The launcher imports `protocol` and `protocol_files` alone.
"""
