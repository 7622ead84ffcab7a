"""What launcher and node agents say to each other: requests, replies, and the looks at a run."""
