"""Commands about files: tasks, inventories and their schemas."""
