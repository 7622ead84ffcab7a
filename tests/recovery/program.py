"""A rank that counts: it resumes from its checkpoint, and its files tell whether a step was lost or done twice.

In its folder on the shared disk: `trail-RANK`, a line for each step (attempt, node, step); `saved-RANK`, the
checkpoint;
`stop`, which ends it well; `fail-NODE`, the exit status that it ends with; `hang-NODE`, on which it falls silent.
"""

import json
import os
import pathlib
import sys
import time

SAVE_EVERY = 5

folder = pathlib.Path(sys.argv[1])
rank, attempt = os.environ["NVLAUNCH_NODE_RANK"], int(os.environ["NVLAUNCH_ATTEMPT"])
node = sys.argv[2] if len(sys.argv) > 2 else os.uname().nodename
saved = folder / f"saved-{rank}"
state = json.loads(saved.read_text()) if saved.exists() else {"step": 0, "sum": 0}
print(f"rank {rank} on {node} in attempt {attempt} resumes at step {state['step']}", flush=True)


def save() -> None:
    """Keep a checkpoint whole: a step counts once it is in one."""
    half = folder / f"saved-{rank}.{attempt}"
    half.write_text(json.dumps(state))
    half.replace(saved)


while not (folder / "stop").exists():
    state = {"step": state["step"] + 1, "sum": state["sum"] + state["step"] + 1}
    with (folder / f"trail-{rank}").open("a") as trail:
        trail.write(f"{attempt} {node} {state['step']}\n")
    if state["step"] % SAVE_EVERY == 0:
        save()
        print(f"step {state['step']}", flush=True)
    failing = folder / f"fail-{node}"
    if failing.exists():
        code = int(failing.read_text())
        failing.unlink()
        sys.exit(code)
    while (folder / f"hang-{node}").exists():
        time.sleep(0.1)
    time.sleep(0.1)
save()
