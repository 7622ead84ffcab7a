"""The SSH transport against real sshds: needs root, as the rig does; where it cannot run, it fails."""
