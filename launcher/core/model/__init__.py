"""The nouns that all else speaks of: inventories, tasks, placements, runs, actions, observations. No decisions."""
