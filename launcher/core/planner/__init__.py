"""What a placement costs, how large slices should be, and which moves free racks. Pure: estimates and plans only.

A relocation itself, of one slice of a running job, is in `core/control/drain.py` and `admission/reallocate.py`.
"""
