"""Discovery: what nodes report about their location, compared with the inventory."""
