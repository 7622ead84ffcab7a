"""Figures as the tables of the planner's sources print them."""

from decimal import ROUND_HALF_UP, Decimal


def printed(value: float, digits: int) -> str:
    """Return a figure with so many digits, rounded half up from one digit more.

    Some tables were rounded twice: 0.93050 stands there as 0.931, and 0.94149 as 0.942.
    """
    once = Decimal(value).quantize(Decimal(1).scaleb(-digits - 1), ROUND_HALF_UP)
    return str(once.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP))
