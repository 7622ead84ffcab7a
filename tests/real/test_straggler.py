"""A rank that works longer than its peers, with real Ray on local racks."""

from tests.desk import Desk
from tests.real.test_up import desk as desk  # noqa: PLC0414 a fixture

TASK = """
name: slow
topology: {within: any, nodes_per_slice: 4}
envs: {GATE: null}
stop_grace: 1
recovery: {on_straggler: check}
run: |
  own=0.5; [ "$NODE_RANK" = 2 ] && own=0.9
  step=1000
  until [ -e "$GATE" ]; do
    step=$((step + 20))
    echo "$step $own" > "$NVLAUNCH_HEARTBEAT.new" && mv "$NVLAUNCH_HEARTBEAT.new" "$NVLAUNCH_HEARTBEAT"
    sleep 0.5
  done
"""


def test_a_slow_rank_is_named_with_its_node_and_goes_on(desk: Desk) -> None:
    up = desk.begin(*desk.up_args(desk.task("slow", TASK)))
    seen = desk.until("slow", lambda seen: "slower than its peers" in str(seen["status_message"]))
    node = next(rank["node"] for rank in seen["ranks"] if rank["rank"] == 2)
    assert f"main/2 on {node}" in seen["status_message"]
    assert (seen["state"], seen["attempt"]) == ("running", 1)
    desk.gate("slow").touch()
    _, err = up.communicate(timeout=120)
    assert up.returncode == 0, err
    assert "main/2 is 80 % slower than its 3 peers: 0.9 s of own work in a step, not 0.5 s" in err
    assert "slow" in desk.run("nodes", node).stdout
