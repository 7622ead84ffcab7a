"""The launcher's side of the protocol with node agents: requests, replies, and looks at a run."""
