"""`python -m launcher.cli` is `nvlaunch`."""

import sys

from launcher.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
