"""Commands, tables and colours; typer and rich live here and nowhere else."""
