"""An imaginary fleet with a virtual clock: the `Nodes` port without machines."""
