"""What runs on the nodes, with the node's own Python: the standard library and Ray only.

Shipped as files, imported by nobody.
"""
