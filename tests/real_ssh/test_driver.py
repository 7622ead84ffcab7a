"""A driver on racks of real hosts: the head on a machine outside the racks, a group in each rack, one lost node."""

import sys
from pathlib import Path

from tests.desk import Desk
from tests.rig import Rig

EXAMPLE = Path(__file__).parents[2] / "examples" / "ray-driver.yaml"


def test_the_example_runs_from_a_head_outside_the_racks(tmp_path: Path) -> None:
    (tmp_path / ".ssh").mkdir()
    with Rig(2, 2, head=True, python=sys.executable, name="driver") as rig:
        desk = Desk(tmp_path, rig.inventory(), HOME=str(tmp_path))
        try:
            up = desk.run("up", str(EXAMPLE), "-y", "--foreground", "-i", str(desk.inventory))
            assert up.returncode == 0, up.stderr + desk.run("logs", "ray-driver").stdout
            logs = desk.run("logs", "ray-driver").stdout
            for at, rack in enumerate(rig.racks()):
                assert f"slice {at}: 2 trainers in {rack}, domains ['{rack}']" in logs
        finally:
            assert desk.run("down", "--all", "-y").returncode == 0
        run = desk.status("ray-driver")["id"]
        for host in (rig.head, *rig.hosts.values()):
            assert not [process for process in host.processes(run) if process.state != "Z"]
