"""Commands and files on one machine over SSH: kept connections, verified host keys, deadlines."""
