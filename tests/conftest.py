"""Which tests run at the same time where several layers with real nodes do (`--dist loadgroup`)."""

from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

LOCAL = "local"


class ByRacks(LoadScopeScheduling):
    """Keeps tests together that share racks, those with many tests first.

    Local racks have addresses and ports of this machine: one test of `real` at a time. Modules of `rig` and `real_ssh`
    have hosts of their own, and scenarios of `recovery` leave theirs as new.
    """

    def _split_scope(self, nodeid: str) -> str:
        layer, module = nodeid.split("/")[1], nodeid.partition("::")[0]
        return LOCAL if layer == "real" else module if layer in ("rig", "real_ssh") else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Take part in scheduling where groups were asked for."""
    return ByRacks(config, log) if config.getoption("dist") == "loadgroup" else None
