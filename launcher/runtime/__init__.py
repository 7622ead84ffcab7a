"""The programs that run on nodes, on the node's own Python: standard library and Ray only.

Shipped as files. The launcher imports `protocol` and `protocol_files` alone.
"""
