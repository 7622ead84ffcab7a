"""Running checks of nodes: by hand, before a start, before a return, and when nodes are idle."""
