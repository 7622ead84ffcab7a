"""Checks of nodes under load: what a result means, which node is slow, and when a failed one comes back."""
