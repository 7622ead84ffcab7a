"""Numbers with their nouns, as headlines, tables and refusals say them."""


def count(number: int, noun: str) -> str:
    """Answer a number with its noun: `1 node`, `2 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
