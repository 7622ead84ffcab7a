"""Run one part of this folder by name: `python -EsS FOLDER keeper begin ...`.

The folder is a package wherever it is put, so its parts import each other relatively, in the repository and on a node.
"""

import sys
from importlib import import_module
from pathlib import Path

if __name__ == "__main__":
    here = Path(__file__).resolve().parent
    sys.path[0] = str(here.parent)
    sys.exit(import_module(f"{here.name}.{sys.argv[1]}").main(sys.argv[2:]))
