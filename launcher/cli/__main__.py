"""`python -m launcher.cli` is `nvlaunch`."""

import sys

from launcher.cli.entry import main

if __name__ == "__main__":
    sys.exit(main())
