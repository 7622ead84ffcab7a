"""Which Python environment an agent makes: one for a dashboard is another one."""

from pathlib import Path

from launcher.core.model.inventory import Access
from launcher.runtime.interpreter import RayEnvironment
from launcher.transport.agent.interpreter import wanted


def test_an_environment_for_a_dashboard_has_what_it_needs_and_is_not_that_of_other_nodes(tmp_path: Path) -> None:
    folder = tmp_path / "runs" / "id" / "place"
    plain, more = (wanted(Access(address="n1"), {}, dashboard=dashboard) for dashboard in (False, True))
    assert plain is not None
    assert more is not None
    assert RayEnvironment(folder, plain).python != RayEnvironment(folder, more).python
    (_, install, _) = RayEnvironment(folder, more)._commands(tmp_path)
    assert install[-1] == f"ray[default]=={more['ray']}"
    assert wanted(Access(address="n1", python="/usr/bin/python3"), {}, dashboard=True) is None
