"""Placement of tasks on an inventory. Imports the model only."""
