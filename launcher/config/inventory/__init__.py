"""Inventory files: racks, nodes and logins, read into an `Inventory`.

`fields` is the table of keys, `read` and `racks` read a file, `amend` writes what `inventory discover` found into it,
`slurm_export` writes it as a topology of Slurm, and `built_in` is the inventory of local racks.
"""
