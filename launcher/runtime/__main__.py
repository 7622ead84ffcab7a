"""Run one module of this folder by name: `python -EsS FOLDER agent_start ...`.

The folder is a package wherever it is put, so its modules import each other relatively, here and on a node.
"""

import os
import sys
from importlib import import_module

if __name__ == "__main__":
    if sys.version_info < (3, 10):  # noqa: UP036 - this is where an older one is told so
        message = "`%s` is Python %d.%d, and 3.10 is needed: name another one with `python:`"
        print('{"ok": false, "message": "%s"}' % (message % (sys.executable, *sys.version_info[:2])))
        sys.exit(1)
    folder, package = os.path.split(os.path.dirname(os.path.realpath(__file__)))
    sys.path[0] = folder
    sys.exit(import_module(f"{package}.{sys.argv[1]}").main(sys.argv[2:]))
