"""What can be wrong with a rig itself, as opposed to what it shows."""


class RigError(Exception):
    """The rig cannot be made, or cannot do what a test asks of it."""
