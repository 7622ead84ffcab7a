"""Facts about nodes: probes to run, parsers of their output, and checks.

Everything here is pure: no I/O. `runtime/facts.py` runs the probes on a node and prints their results as one line of
JSON, which `results` reads. A fact that could not be read is `Unknown`, never a guess.

To add a fact to `nvlaunch doctor`:

1. Probe: a command in `probes` of `node_facts.py`, or a function in `runtime/facts.py` if no command prints it.
2. Parser: a function `read_...(result) -> ... | Unknown` in `system`, `resources`, `nvidia_smi`, `imex` or `xid`, and a
   field of `Facts` in `node_facts.py`. Put real output with the parsed fact into `tests/corpus/probe`.
3. Check: a member of `Fact` in `findings.py`, and a function that returns a `Finding`, listed in `check_node.py`. A
   value that the nodes of a slice must share is a line of `check_slice.py`.

To add a sign of bad health during a run: a function in `health.py` that yields a `Sign` from the same facts, called in
`assess`. Its `Symptom` decides whether the node, a peer or the program is blamed. A new Xid is a row of `xid_table.py`.
"""
