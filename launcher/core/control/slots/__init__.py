"""Which node and which raylet a slot has, and the raylets of spares."""
