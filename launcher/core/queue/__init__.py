"""Queue: which queued run starts now, when the others can, and which runs to preempt for them."""
