"""Where nodes are, as they report it, and what differs from the inventory."""
