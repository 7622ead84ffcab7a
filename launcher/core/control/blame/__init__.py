"""Rules of blame: data in, a verdict with its reason out. They know no tick."""
