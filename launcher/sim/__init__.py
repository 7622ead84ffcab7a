"""An imaginary fleet behind the same ports as real machines, in virtual time."""
