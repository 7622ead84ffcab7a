"""The wheel, installed alone."""
