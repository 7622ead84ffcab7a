"""`python -m tests.rig.able` ends with 1 and a sentence where no rig can be made whose hosts use this interpreter."""

import sys

from tests.rig.errors import RigError
from tests.rig.machine import exposed, require


def main() -> None:
    """Tell whether this machine can make a rig."""
    try:
        require()
        exposed(sys.executable, ())
    except RigError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
