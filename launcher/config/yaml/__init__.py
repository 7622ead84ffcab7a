"""YAML text to nodes that know where they stand: bounded, without duplicate keys, without surprises."""
