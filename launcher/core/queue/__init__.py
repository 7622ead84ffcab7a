"""Queue: which run starts now, when others can, and which runs to preempt."""
