"""Tables as aligned text, the same on a terminal, in a pipe and in a log."""

from collections.abc import Sequence

from launcher.cli.output.console import clean

GAP = "  "


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, indent: str = "") -> str:
    """Return the rows under their header, without empty columns.

    The last column is not padded, so that no line ends with blanks.
    """
    cells = [list(header), *([clean(cell).replace("\n", " ") for cell in row] for row in rows)]
    kept = [at for at in range(len(header)) if any(row[at] for row in cells[1:])]
    widths = {at: max(len(row[at]) for row in cells) for at in kept}
    return "\n".join(indent + GAP.join(row[at].ljust(widths[at]) for at in kept).rstrip() for row in cells)
