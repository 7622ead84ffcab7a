"""Training with Ray Train: workers on all nodes, checkpoints in a folder that all share, a run that is found by name.

It knows Ray alone. A new start of the same run goes on from its newest checkpoint, as Ray Train does by itself.
"""

import argparse
import json
import pathlib
import tempfile
import time

import numpy as np
import ray.train
from ray.train import Checkpoint, CheckpointConfig, RunConfig, ScalingConfig
from ray.train.collective import broadcast_from_rank_zero
from ray.train.v2.api.data_parallel_trainer import DataParallelTrainer


def train(config):
    """Fit a line to drawn points, one step after the other; all workers wait for each other in each step."""
    context = ray.train.get_context()
    drawn = np.random.default_rng(1)
    inputs = drawn.normal(size=(64, 8))
    targets = inputs @ drawn.normal(size=8)
    state = {"step": 0, "weights": [0.0] * 8}
    if checkpoint := ray.train.get_checkpoint():
        with checkpoint.as_directory() as folder:
            state = json.loads(pathlib.Path(folder, "state.json").read_text())
        print(f"resuming at step {state['step']}", flush=True)
    weights = np.array(state["weights"])
    for step in range(state["step"] + 1, config["steps"] + 1):
        errors = inputs @ weights - targets
        loss = float((errors**2).mean())
        weights = broadcast_from_rank_zero(weights - 0.01 * inputs.T @ errors / len(errors) * 2)
        if context.get_world_rank() == 0:
            with pathlib.Path(config["losses"]).open("a") as log:
                log.write(f"{step} {loss:.7f}\n")
        time.sleep(config["pause"])
        if step % 10 == 0:
            with tempfile.TemporaryDirectory() as folder:
                saved = {"step": step, "weights": weights.tolist()}
                pathlib.Path(folder, "state.json").write_text(json.dumps(saved))
                first = context.get_world_rank() == 0
                ray.train.report({"loss": loss}, checkpoint=Checkpoint.from_directory(folder) if first else None)


def main():
    """Train to the last step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=90)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--losses", required=True)
    parser.add_argument("--storage", required=True)
    parser.add_argument("--pause", type=float, default=0.0)
    args = parser.parse_args()
    trainer = DataParallelTrainer(
        train,
        train_loop_config={"steps": args.steps, "losses": args.losses, "pause": args.pause},
        scaling_config=ScalingConfig(num_workers=args.workers, placement_strategy="STRICT_SPREAD"),
        run_config=RunConfig(name="line", storage_path=args.storage, checkpoint_config=CheckpointConfig(num_to_keep=2)),
    )
    print("finished:", trainer.fit().metrics, flush=True)


if __name__ == "__main__":
    main()
