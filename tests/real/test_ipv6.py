"""Real Ray on nodes that have IPv6 addresses only, in a network of their own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
INVENTORY = """
name: six
transport: local
lease_path: {home}/lease
racks:
  r1: {{nodes: {{a: {{address: "fd00::1"}}, b: {{address: "fd00::2"}}}}}}
"""
TASK = """
name: six
resources: {accelerators: GB300:4}
topology: {slices: 1, nodes_per_slice: 2}
stop_grace: 1
driver: |
  echo "master $MASTER_ADDR of" $NVLAUNCH_NODE_IPS
  python - <<'END'
  import ray
  ray.init()

  @ray.remote(num_cpus=1, num_gpus=4)
  class Trainer:
      def where(self):
          return ray.util.get_node_ip_address()

  trainers = [Trainer.remote() for _ in range(2)]
  print("trainers on", sorted(ray.get([one.where.remote() for one in trainers], timeout=60)))
  END
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make a network")
def test_a_run_on_ipv6_alone_has_plain_addresses_in_its_variables(tmp_path: Path) -> None:
    (tmp_path / "inventory.yaml").write_text(INVENTORY.format(home=tmp_path))
    (tmp_path / "task.yaml").write_text(TASK)
    network = "ip link set lo up && ip -6 addr add fd00::1/64 dev lo && ip -6 addr add fd00::2/64 dev lo"
    up = f"{sys.executable} -m launcher.cli up {tmp_path}/task.yaml -i {tmp_path}/inventory.yaml --yes"
    logs = f"{sys.executable} -m launcher.cli logs six"
    done = subprocess.run(
        ["unshare", "-n", "sh", "-c", f"{network} && {up}; {logs}"],
        env={**os.environ, "PYTHONPATH": str(ROOT), "NVLAUNCH_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=240,
        stdin=subprocess.DEVNULL,
    )
    assert "`six` succeeded" in done.stdout + done.stderr, done.stdout + done.stderr
    assert "master fd00::1 of fd00::1 fd00::2" in done.stdout
    assert "trainers on ['fd00::1', 'fd00::2']" in done.stdout
