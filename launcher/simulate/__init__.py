"""A fleet over days to months of virtual time, decided on by the real kernel, placement and queue."""
