"""What a placement costs, how large slices should be, and which moves free racks. Pure: estimates and plans only."""
