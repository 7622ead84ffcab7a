"""The queue of runs that wait for nodes: whose turn it is, told and waited for."""
