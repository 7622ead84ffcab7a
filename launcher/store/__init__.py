"""What the launching machine remembers, in SQLite: runs, journal, claims."""
