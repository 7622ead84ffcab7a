"""Task files: SkyPilot's keys and `topology:`."""
