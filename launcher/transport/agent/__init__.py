"""The launcher's side of the protocol with node agents."""
