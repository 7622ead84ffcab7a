"""The product, pure: what exists, what is asked, where it goes, and what to do next.

Nothing here may do I/O, read a clock, draw a random number or log; time and evidence arrive as data, decisions
leave as data with their reason.
"""
