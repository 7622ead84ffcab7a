"""Nouns of all other rooms: inventories, tasks, placements, runs, actions.

No decisions are made here.
"""
